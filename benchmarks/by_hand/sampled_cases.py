"""Bugs and right variants of ``sampled_ddp.py``, which takes an order of its own (``order``)."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

ORDER = ("order",)
SAMPLER = "DistributedSampler(train, shuffle=True)"
WRAP = "        self.model = DistributedDataParallel(net)\n"
EPOCH = "            self.sampler.set_epoch(epoch)\n"
STEP = "            self.optimizer.step()\n"
BATCH = "batch_size=12 // self.world"
MODULE = "self.model.module.state_dict()"
TRAIN_MEAN = "        return self.mean(total, len(self.train_loader))\n"
VALID_MEAN = "        return self.mean(total, count)\n"
PRINT = (
    "            if self.rank == 0:\n"
    '                print(f"epoch {epoch} train {train:.6f} valid {valid:.6f}")\n'
)
SAVE = (
    "                if self.rank == 0:\n"
    '                    state = {"model": self.model.module.state_dict(), "epoch": epoch}\n'
    '                    torch.save(state, "best.pt")\n'
)
SCHEDULE = "            self.scheduler.step(valid)\n"
STOP = "            if self.waited >= 2:\n"
ZERO = "            self.optimizer.zero_grad()\n"
FORWARD = "            loss = self.criterion(self.model(x), y)\n"

RIGHT = [
    Case("right: as it is", (), allowed=ORDER),
    Case("right: ranks and replicas told", (
        (SAMPLER, "DistributedSampler(train, self.world, self.rank, shuffle=True)"),),
        allowed=ORDER),
    Case("right: another seed of the sampler", (
        (SAMPLER, "DistributedSampler(train, shuffle=True, seed=5)"),), allowed=ORDER),
    Case("right: unused parameters are looked for", (
        (WRAP, WRAP.replace("(net)", "(net, find_unused_parameters=True)")),), allowed=ORDER),
    Case("right: small buckets", (
        (WRAP, WRAP.replace("(net)", "(net, bucket_cap_mb=0.001)")),), allowed=ORDER),
    Case("right: every rank validates on all samples", (
        ("batch_size=8 // self.world, sampler=DistributedSampler(valid, shuffle=False)",
         "batch_size=8"),
        (VALID_MEAN, "        return total / count\n")), allowed=ORDER),
    Case("right: the stop is broadcast by rank 0", (
        (STOP, "            flag = torch.tensor([self.waited])\n"
         "            dist.broadcast(flag, 0)\n            if flag.item() >= 2:\n"),),
        allowed=ORDER),
    Case("right: padded by the sampler", (),
         both=(("data(1, 96)", "data(1, 95)"),), allowed=("order", "padding")),
    Case("right: the learning rate in a group", (
        ("self.model.parameters(), lr=0.02)",
         '[{"params": self.model.parameters(), "lr": 0.02}])'),), allowed=ORDER),
    Case("right: the original's order by a sampler of its own", (
        (SAMPLER, "DistributedSampler(range(1), 1, 0)"),
        ("        self.train_loader = DataLoader(train, batch_size=12 // self.world, "
         "sampler=self.sampler)\n",
         "        class Part(torch.utils.data.BatchSampler):\n"
         "            def __iter__(self):\n"
         "                for batch in super().__iter__():\n"
         "                    yield batch[dist.get_rank() :: dist.get_world_size()]\n"
         "        order = torch.utils.data.RandomSampler(train)\n"
         "        parts = Part(order, 12, False)\n"
         "        self.train_loader = DataLoader(train, batch_sampler=parts)\n"))),
]  # fmt: skip

BUGS = [
    Case("no sampler", ((BATCH + ", sampler=self.sampler", "batch_size=12, shuffle=True"),),
         rules=("DDP101",)),
    Case("no set_epoch", ((EPOCH, ""),), rules=("DDP102",)),
    Case("set_epoch with a constant", ((EPOCH, EPOCH.replace("epoch)", "0)")),),
         rules=("DDP102",)),
    Case("the sampler does not shuffle", ((SAMPLER, SAMPLER.replace("True", "False")),),
         words="shuffle"),
    Case("the sampler has the rank 0 everywhere", (
        (SAMPLER, "DistributedSampler(train, self.world, 0, shuffle=True)"),),
        rules=("DDP104",)),
    Case("the sampler has one replica", (
        (SAMPLER, "DistributedSampler(train, 1, 0, shuffle=True)"),),
        rules=("DDP101", "DDP104")),
    Case("the sampler is seeded by rank", (
        (SAMPLER, "DistributedSampler(train, shuffle=True, seed=self.rank)"),),
        rules=("DDP604", "DDP104")),
    Case("the batch is not divided", ((BATCH, "batch_size=12"),), rules=("DDP110",)),
    Case("the batch is divided twice", ((BATCH, "batch_size=12 // self.world // 2"),),
         rules=("DDP110", "DDP416"), words="batch"),
    Case("the data set of each rank differs", (
        ("manual_seed(seed)", "manual_seed(seed + dist.get_rank())"),),
        rules=("DDP108",)),
    Case("drop_last loses samples", (
        (SAMPLER, "DistributedSampler(train, shuffle=True, drop_last=True)"),
        (BATCH, BATCH + ", drop_last=True")),
        both=(("data(1, 96)", "data(1, 101)"),), rules=("DDP114",), words="dropped|drop_last"),
    Case("not wrapped", (
        (WRAP, "        self.model = net\n"), (MODULE, "self.model.state_dict()")),
        rules=("DDP303",)),
    Case("the forward goes past the wrapper", (
        (FORWARD, FORWARD.replace("self.model(", "self.model.module(")),),
        rules=("DDP303",)),
    Case("the optimizer has rates of a larger world", (
        ("lr=0.02", "lr=0.02 * self.world"),), rules=("DDP110",)),
    Case("plateau on one rank's validation", (
        (SCHEDULE, SCHEDULE.replace("valid)", "valid / (1 + self.rank * epoch))")),),
        rules=("DDP406",)),
    Case("the scheduler steps on rank 0 alone", (
        (SCHEDULE, "            if self.rank == 0:\n    " + SCHEDULE),), rules=("DDP407",)),
    Case("the scheduler never steps", ((SCHEDULE, ""),), words="schedul"),
    Case("stops by one rank's validation", (
        (STOP, "            if self.waited >= 2 or (self.rank == 1 and epoch == 2):\n"),),
        rules=("DDP402",)),
    Case("stops one epoch early on all ranks", (("range(5)", "range(4)"),),
         words="steps"),
    Case("zero_grad after backward", (
        (ZERO, ""), (STEP, ZERO + STEP)), words="zero_grad|cleared|zero|no gradient"),
    Case("zero_grad is left out", ((ZERO, ""),), words="zero_grad"),
    Case("two steps", ((STEP, STEP + STEP),), rules=("DDP407", "DDP416"), words="backward"),
    Case("loss divided by the world size", (
        ("loss.backward()", "(loss / self.world).backward()"),), rules=("DDP409",)),
    Case("the loss is summed", (
        ("nn.MSELoss()", 'nn.MSELoss(reduction="sum")'),),
        rules=("DDP408", "DDP416"), words="factor"),
    Case("the loss is averaged over all ranks without gradients' scale", (
        (FORWARD, FORWARD + "            dist.all_reduce(loss.data)\n"),),
        words="loss|print"),
    Case("the train loss of one rank is printed", (
        (TRAIN_MEAN, "        return total / len(self.train_loader)\n"),), rules=("DDP405",)),
    Case("the validation of one rank is used", (
        (VALID_MEAN, "        return total / count\n"),), rules=("DDP405", "DDP406", "DDP402")),
    Case("the validation is divided by the whole set", (
        (VALID_MEAN, "        return total / len(self.valid_loader.dataset)\n"),),
        rules=("DDP111", "DDP405", "DDP406")),
    Case("every rank prints", (
        (PRINT, PRINT.replace("if self.rank == 0", "if True")),), rules=("DDP508",)),
    Case("every rank saves", ((SAVE, SAVE.replace("if self.rank == 0", "if True")),),
         rules=("DDP501",)),
    Case("the wrapper's keys", ((MODULE, "self.model.state_dict()"),), rules=("DDP503",)),
    Case("the last instead of the best model", (
        ("            if valid < self.best:\n", "            if True:\n"),
        ("                self.best, self.waited = valid, 0\n",
         "                self.waited = 0 if valid < self.best else self.waited + 1\n"
         "                self.best = min(valid, self.best)\n")),
        words="best.pt"),
    Case("evaluation mode from the second epoch on", (
        ("        self.model.train()\n", ""),
        (WRAP, "        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n" + WRAP)),
        both=(("nn.Tanh()", "nn.BatchNorm1d(16), nn.Tanh()"),), words="evaluation mode"),
    Case("BatchNorm by rank", (),
        both=(("nn.Tanh()", "nn.BatchNorm1d(16), nn.Tanh()"),), rules=("DDP312",)),
    Case("rank 1 validates alone", (
        ("            train, valid = self.train_epoch(), self.validate()\n",
         "            train = self.train_epoch()\n"
         "            valid = self.validate() if self.rank == 0 else 0.0\n"),),
        rules=("DDP401", "DDP402", "DDP403")),
    Case("another optimizer", (("optim.Adam(", "optim.SGD("),), words="optimizer"),
    Case("another width", (("nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)",
                           "nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1)"),),
         words="other|shape|size|start|original's"),
]  # fmt: skip

CASES = RIGHT + BUGS
