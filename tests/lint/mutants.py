"""Pitfalls to plant in scripts that are right without them (``right/``).

Each is a code, a script, and replacements of text that occurs once in the script.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One planted pitfall; ``strict`` where only ``--strict`` reports it."""

    code: str
    script: str
    changes: tuple[tuple[str, str], ...]
    strict: bool = False


def _mutant(code: str, script: str, *changes: tuple[str, str], strict: bool = False) -> Mutant:
    return Mutant(code, script, changes, strict)


F, T, S, ONE = "functions", "trainer", "sharded", "one_gpu"
SETUP = "    rank, local_rank, world_size = setup()\n"
JOIN = '    dist.init_process_group("nccl")\n'
FORWARD = "            loss = criterion(model(x), y)\n"
SCALED = "        scaler.scale(loss).backward()\n"
STEP = "        scaler.step(optimizer)\n        scaler.update()\n"
BUILT = "    model = build_model(local_rank, device)\n"
WRAPPED = "    return DDP(net, device_ids=[local_rank])\n"
EPOCH = "        sampler.set_epoch(epoch)\n"
OPTIMIZER = "        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)\n"
ACCUMULATED = "                loss = self.criterion(self.model(x), y) / self.accumulate\n"
LOADER = "        self.loader = DataLoader(data, 16, sampler=self.sampler)\n"
REDUCED = "    dist.all_reduce(total)\n"
COUNTED = "        hits[1] += len(y)\n    dist.all_reduce(hits)\n"
SUMMED = ("nn.CrossEntropyLoss()", 'nn.CrossEntropyLoss(reduction="sum")')
MEAN = "        dist.all_reduce(mean)\n        mean /= self.world_size\n"
BATCHES = """    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
"""
EVALUATED = """    hits = torch.zeros(2, device=device)
    for x, y in loader:
        found = model(x.to(device)).argmax(1)
        hits[0] += (found == y.to(device)).sum()
        hits[1] += len(y)
    dist.all_reduce(hits)
    return (hits[0] / hits[1]).item()
"""
SPLIT = "random_split(data, [800, 200], generator=torch.Generator().manual_seed(1))"

DATA = [
    _mutant("DDP101", F, ("batch, sampler=sampler, num", "batch, shuffle=True, num")),
    _mutant("DDP101", T, ("16, sampler=self.sampler)", "16, shuffle=True)")),
    _mutant("DDP101", S, ("64, sampler=sampler)", "64, shuffle=True)"), (EPOCH, "")),
    _mutant("DDP102", F, (EPOCH, "")),
    _mutant("DDP102", T, ("        self.sampler.set_epoch(epoch)\n", "")),
    _mutant("DDP102", S, (EPOCH, "")),
    _mutant("DDP103", F, ("sampler=sampler, num", "sampler=sampler, shuffle=True, num")),
    _mutant("DDP103", T, ("sampler=self.sampler)", "sampler=self.sampler, shuffle=True)")),
    _mutant(
        "DDP104",
        T,
        (
            "DistributedSampler(data)",
            "DistributedSampler(data, num_replicas=self.world_size, rank=self.local_rank)",
        ),
    ),
    _mutant(
        "DDP105",
        T,
        (
            "class Trainer:\n",
            "class Lines(torch.utils.data.IterableDataset):\n"
            "    def __iter__(self):\n"
            "        for line in open('rows.txt'):\n"
            "            yield torch.tensor([float(line)] * 20), int(line)\n\n\nclass Trainer:\n",
        ),
        (LOADER, "        self.loader = DataLoader(Lines(), 16)\n"),
    ),
    _mutant(
        "DDP106",
        F,
        (
            BATCHES,
            "    rows, labels = torch.zeros(800, 3, 8, 8), torch.zeros(800).long()\n"
            "    for _ in range(100):\n"
            "        ix = torch.randint(len(rows), (32,))\n"
            "        x, y = rows[ix].to(device), labels[ix].to(device)\n",
        ),
    ),
    _mutant(
        "DDP107",
        F,
        (SPLIT, "random_split(data, [800, 200])"),
        ("    seed_all(args.seed)\n", ""),
        ("    torch.manual_seed(seed)\n", ""),
    ),
    _mutant(
        "DDP108",
        T,
        ("torch.manual_seed(0)", "torch.manual_seed(dist.get_rank())"),
        ("torch.linspace(0, 1, 20 * 512).reshape(512, 20)", "torch.rand(512, 20)"),
    ),
    _mutant(
        "DDP109",
        T,
        (
            "sampler=self.sampler)",
            "sampler=torch.utils.data.WeightedRandomSampler(torch.ones(512), 512))",
        ),
    ),
    _mutant("DDP110", F, ("args.batch_size // world_size", "args.batch_size"), strict=True),
    _mutant(
        "DDP111",
        F,
        ("    dist.all_reduce(hits)\n", ""),
        ("(hits[0] / hits[1]).item()", "hits[0].item() / len(loader.dataset)"),
    ),
    _mutant(
        "DDP112",
        F,
        (
            EVALUATED,
            "    found = []\n    for x, y in loader:\n"
            "        found.append(model(x.to(device)).argmax(1) == y.to(device))\n"
            "    own = torch.cat(found)\n"
            "    parts = [torch.zeros_like(own) for _ in range(dist.get_world_size())]\n"
            "    dist.all_gather(parts, own)\n    return torch.cat(parts).float().mean().item()\n",
        ),
        strict=True,
    ),
    _mutant("DDP113", S, ("shuffle=True)", "shuffle=False)")),
    _mutant(
        "DDP114",
        T,
        (
            LOADER,
            "        own = torch.utils.data.Subset(data, range(self.rank, 509, self.world_size))\n"
            "        self.loader = DataLoader(own, 16, shuffle=True)\n",
        ),
    ),
    _mutant(
        "DDP115",
        F,
        (", num_workers=2, drop_last=True)", ", num_workers=2)"),
        ("    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n", ""),
        ("nn.Linear(16, 10)", "nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 10))"),
    ),
    _mutant(
        "DDP116",
        F,
        (
            "        self.y = ",
            "        self.names = {n: i for i, n in enumerate(set(os.listdir('data')))}\n"
            "        self.y = ",
        ),
    ),
    _mutant(
        "DDP117",
        F,
        (
            "from torch.utils.data.distributed",
            "import torchvision\nfrom torch.utils.data.distributed",
        ),
        ("Rows(1000)", "torchvision.datasets.CIFAR10('data', download=True)"),
    ),
]
DEVICE = [
    _mutant("DDP201", F, ("Net().to(device)", "Net().to('cuda:0')")),
    _mutant("DDP201", F, ("Net().to(device)", "Net().cuda(0)")),
    _mutant("DDP201", T, ("model.to(self.device)", "model.to(0)")),
    _mutant("DDP201", T, ('torch.device("cuda", self.local_rank)', 'torch.device("cuda:0")')),
    _mutant(
        "DDP202",
        F,
        ("    torch.cuda.set_device(local_rank)\n", ""),
        (BUILT, "    model = Net().cuda()\n    torch.cuda.set_device(local_rank)\n" + BUILT),
    ),
    _mutant(
        "DDP203",
        T,
        ('set_device(int(os.environ["LOCAL_RANK"]))', 'set_device(int(os.environ["RANK"]))'),
    ),
    _mutant("DDP204", F, (SETUP, '    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n' + SETUP)),
    _mutant("DDP205", F, ("args.resume, map_location=device)", "args.resume)")),
    _mutant(
        "DDP206",
        F,
        ("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(weight=torch.tensor([1.0] * 9 + [2.0]))"),
    ),
    _mutant(
        "DDP207",
        F,
        ("    net = Net().to(device)\n", "    net = Net()\n    net.features.to(device)\n"),
    ),
    _mutant(
        "DDP208",
        F,
        (
            "x.to(device, non_blocking=True), y.to(device, non_blocking=True)",
            "x.to(device, non_blocking=True), y",
        ),
    ),
    _mutant("DDP209", T, ("device_ids=[self.local_rank]", "device_ids=[0, 1]")),
    _mutant("DDP210", F, (REDUCED, "    dist.all_reduce(total.item())\n")),
]
MODEL = [
    _mutant(
        "DDP301", ONE, ("    criterion =", "    model = nn.DataParallel(model)\n    criterion =")
    ),
    _mutant("DDP302", F, (BUILT, BUILT.rstrip() + ".half()\n")),
    _mutant(
        "DDP302",
        F,
        (WRAPPED, "    model = DDP(net)\n    model.to(device)\n    return model\n"),
        ("Net().to(device)", "Net()"),
    ),
    _mutant("DDP303", F, (FORWARD, FORWARD.replace("model(x)", "model.module(x)"))),
    _mutant("DDP303", T, ("self.model(x)", "self.model.module(x)")),
    _mutant("DDP304", T, ("self.model(x)", "self.raw(x)")),
    _mutant(
        "DDP305",
        T,
        (
            OPTIMIZER,
            "        self.extra = nn.Linear(2, 2).to(self.device)\n"
            "        held = list(self.model.parameters()) + list(self.extra.parameters())\n"
            "        self.optimizer = torch.optim.AdamW(held, lr=1e-3)\n",
        ),
        ("self.model(x)", "self.extra(self.model(x))"),
    ),
    _mutant(
        "DDP306",
        F,
        (
            EPOCH,
            EPOCH + "        if epoch == 3:\n            for p in model.module.parameters():\n"
            "                p.requires_grad = False\n",
        ),
    ),
    _mutant("DDP307", F, (BUILT, BUILT + "    model.module.head = nn.Linear(16, 20).to(device)\n")),
    _mutant(
        "DDP308",
        F,
        ("    if args.resume:\n", "    if args.resume and rank == 0:\n"),
    ),
    _mutant("DDP309", F, (BUILT, BUILT + "    print(model.head.weight.shape)\n")),
    _mutant(
        "DDP310",
        F,
        (FORWARD, FORWARD + "            other = criterion(model(x.flip(3)), y)\n"),
        (SCALED, SCALED + "        scaler.scale(other).backward()\n"),
    ),
    _mutant(
        "DDP312",
        F,
        ("    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n", ""),
        ("batch_size=batch, sampler=sampler", "batch_size=8, sampler=sampler"),
    ),
    _mutant(
        "DDP313",
        F,
        (
            "        self.features = nn.Seq",
            "        self.norm = nn.BatchNorm2d(3)\n        self.features = nn.Seq",
        ),
        (
            "batchnorm(net)\n",
            "batchnorm(net)\n    nn.SyncBatchNorm.convert_sync_batchnorm(net.norm)\n",
        ),
    ),
    _mutant(
        "DDP314",
        T,
        (
            "        self.hidden = nn.Linear(width, width)\n",
            "        self.hidden = nn.Linear(width, width)\n"
            "        self.register_buffer('centre', torch.zeros(20))\n",
        ),
        (
            "        return self.hidden(",
            "        self.centre = 0.9 * self.centre + 0.1 * x.mean(0)\n"
            "        return self.hidden(",
        ),
    ),
    _mutant(
        "DDP316",
        F,
        (
            "        self.head = nn.Linear(16, 10)\n",
            "        self.head = nn.Linear(16, 10)\n        self.other = nn.Linear(16, 10)\n",
        ),
    ),
    _mutant(
        "DDP317",
        F,
        ("device_ids=[local_rank])", "device_ids=[local_rank], find_unused_parameters=True)"),
    ),
    _mutant(
        "DDP319",
        T,
        ("import torch\n", "import torch\nimport torch.utils.checkpoint\n"),
        (
            "self.hidden(torch.relu(self.embed(x)))",
            "self.hidden(torch.utils.checkpoint.checkpoint(self.embed, x).relu())",
        ),
    ),
    _mutant("DDP321", F, ("device_ids=[local_rank])", "device_ids=[local_rank], timeout=60)")),
]
SYNCHRONISATION = [
    _mutant(
        "DDP401", F, (REDUCED, "    if dist.get_rank() == 0:\n        dist.all_reduce(total)\n")
    ),
    _mutant(
        "DDP401",
        T,
        ('"model.pt")\n        dist.barrier()', '"model.pt")\n            dist.barrier()'),
    ),
    _mutant("DDP402", F, (REDUCED, "")),
    _mutant("DDP402", T, (MEAN, "")),
    _mutant(
        "DDP403",
        F,
        (
            "        accuracy = evaluate(model, val_loader, device)\n        if rank == 0:\n",
            "        accuracy = 0.0\n        if rank == 0:\n"
            "            accuracy = evaluate(model, val_loader, device)\n",
        ),
        ("    dist.all_reduce(hits)\n", ""),
    ),
    _mutant(
        "DDP404",
        T,
        (
            ACCUMULATED + "                loss.backward()\n",
            "                try:\n    " + ACCUMULATED + "                    loss.backward()\n"
            "                except RuntimeError:\n                    torch.cuda.empty_cache()\n"
            "                    continue\n",
        ),
    ),
    _mutant("DDP405", F, ("    dist.all_reduce(hits)\n", "")),
    _mutant("DDP405", T, (MEAN, "")),
    _mutant("DDP406", T, (MEAN, "")),
    _mutant(
        "DDP407",
        T,
        (
            "            self.schedule.step(loss)\n",
            "            if self.rank == 0:\n                self.schedule.step(loss)\n",
        ),
    ),
    _mutant("DDP408", T, SUMMED, ("optim.AdamW(", "optim.SGD(")),
    _mutant("DDP408", S, SUMMED, ("optim.AdamW(", "optim.SGD(")),
    _mutant(
        "DDP409", T, (ACCUMULATED, ACCUMULATED + "                loss = loss / self.world_size\n")
    ),
    _mutant("DDP410", T, (ACCUMULATED, ACCUMULATED + "                dist.all_reduce(loss)\n")),
    _mutant(
        "DDP411",
        T,
        (
            ACCUMULATED,
            "                z = self.model(x)\n"
            "                everyone = [torch.zeros_like(z) for _ in range(self.world_size)]\n"
            "                dist.all_gather(everyone, z)\n"
            "                loss = self.criterion(z @ torch.cat(everyone).t(), y)\n",
        ),
    ),
    _mutant(
        "DDP412",
        T,
        (
            ACCUMULATED,
            "                z = self.model(x)\n"
            "                loss = self.criterion(z @ z.t(), "
            "torch.arange(len(x), device=self.device))\n",
        ),
    ),
    _mutant(
        "DDP413",
        F,
        (
            COUNTED + "    return (hits[0] / hits[1]).item()\n",
            "        hits[1] += (y.to(device) != 0).sum()\n    share = hits[0] / hits[1]\n"
            "    dist.all_reduce(share)\n    return (share / dist.get_world_size()).item()\n",
        ),
    ),
    _mutant("DDP414", F, (REDUCED, "    total = dist.all_reduce(total)\n")),
    _mutant(
        "DDP415",
        T,
        (
            ACCUMULATED + "                loss.backward()\n",
            ACCUMULATED + "            loss.backward()\n",
        ),
    ),
    _mutant(
        "DDP416",
        T,
        (" or step + 1 == len(self.loader)", ""),
    ),
    _mutant(
        "DDP418",
        F,
        (
            "steps = args.epochs * len(loader)",
            "steps = args.epochs * len(loader.dataset) // 64",
        ),
    ),
    _mutant(
        "DDP419",
        T,
        (
            "        dist.barrier()\n",
            '        self.raw.load_state_dict(torch.load("model.pt", map_location=self.device))\n',
        ),
    ),
    _mutant("DDP422", F, ("        scaler.unscale_(optimizer)\n", "")),
    _mutant(
        "DDP423",
        F,
        ("def setup():\n", "RANK = dist.get_rank()\n\n\ndef setup():\n"),
    ),
]
FILES = [
    _mutant(
        "DDP501",
        F,
        (
            "            if accuracy > best:\n                save(",
            "        if accuracy > best:\n            save(",
        ),
    ),
    _mutant(
        "DDP501",
        T,
        (
            "        if self.rank == 0:\n            torch.save(",
            "        if True:\n            torch.save(",
        ),
    ),
    _mutant(
        "DDP502",
        T,
        (
            "        if self.rank == 0:\n            torch.save(",
            "        if self.local_rank == 0:\n            torch.save(",
        ),
    ),
    _mutant("DDP503", T, ("self.raw.state_dict()", "self.model.state_dict()")),
    _mutant(
        "DDP506",
        F,
        (
            "    if rank == 0:\n        os.makedirs(args.out, exist_ok=True)\n",
            "    if not os.path.exists(args.out):\n        os.makedirs(args.out)\n",
        ),
    ),
    _mutant(
        "DDP507",
        F,
        ("import random\n", "import random\nimport time\n"),
        (
            "    if rank == 0:\n        os.makedirs(args.out, exist_ok=True)\n",
            "    args.out = f'runs/{time.time()}'\n    os.makedirs(args.out, exist_ok=True)\n",
        ),
    ),
    _mutant(
        "DDP508", T, ('SummaryWriter("runs") if self.rank == 0 else None', 'SummaryWriter("runs")')
    ),
]
RANDOM = [
    _mutant(
        "DDP601",
        T,
        (
            "        self.hidden = nn.Linear(width, width)\n",
            "        self.hidden = nn.Sequential(nn.Linear(width, width), nn.Dropout(0.5))\n",
        ),
    ),
    _mutant(
        "DDP602",
        F,
        (SPLIT, "random_split(data, [800, 200])"),
        ("seed_all(args.seed)", "seed_all(args.seed + rank)"),
    ),
    _mutant("DDP604", T, ("DistributedSampler(data)", "DistributedSampler(data, seed=self.rank)")),
]
LAUNCH = [
    _mutant("DDP701", F, (JOIN, '    os.environ["MASTER_PORT"] = "12355"\n' + JOIN)),
    _mutant(
        "DDP702",
        T,
        ("def main():\n", "def main(index):\n"),
        ("    main()\n", "    torch.multiprocessing.spawn(main, nprocs=2)\n"),
        (
            "import torch.distributed as dist\n",
            "import torch.distributed as dist\nimport torch.multiprocessing\n",
        ),
    ),
    _mutant(
        "DDP703",
        F,
        (
            "    args = parser.parse_args()\n",
            '    parser.add_argument("--local_rank", type=int, default=0)\n'
            "    args = parser.parse_args()\n    print(args.local_rank)\n",
        ),
    ),
    _mutant("DDP704", T, (JOIN, '    dist.init_process_group("gloo")\n')),
    _mutant("DDP706", F, (" / dist.get_world_size()\n", " / torch.cuda.device_count()\n")),
    _mutant("DDP712", F, ("        if rank == 0:\n", '        if os.environ["RANK"] == 0:\n')),
    _mutant(
        "DDP710",
        F,
        ("def main():\n", "def main(index):\n"),
        ("    main()\n", "    torch.multiprocessing.spawn(main, nprocs=8)\n"),
    ),
    _mutant(
        "DDP711",
        F,
        (
            SETUP,
            "    parser = argparse.ArgumentParser()  # torchrun --nproc_per_node 8 train.py\n"
            '    parser.add_argument("--number", type=int, default=0)\n'
            "    options = parser.parse_args()\n"
            '    dist.init_process_group("nccl", rank=options.number, world_size=8)\n'
            "    rank, local_rank, world_size = options.number, options.number, 8\n",
        ),
        (
            """def setup():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    return dist.get_rank(), local_rank, dist.get_world_size()
""",
            "",
        ),
    ),
    _mutant("DDP708", F, (JOIN, '    os.environ["NCCL_TIMEOUT"] = "1800"\n' + JOIN)),
    _mutant(
        "DDP801",
        T,
        (
            "with contextlib.nullcontext() if last else self.model.no_sync():",
            "with contextlib.nullcontext():",
        ),
    ),
]
DEPRECATED = [
    _mutant("DDP901", F, ('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")),
    _mutant(
        "DDP902",
        F,
        ("device_ids=[local_rank])", "device_ids=[local_rank], broadcast_buffers=False)"),
    ),
    _mutant(
        "DDP903",
        T,
        ("dist.all_reduce(mean)", "dist._all_gather_base(torch.zeros(self.world_size), mean)"),
    ),
    _mutant(
        "DDP905",
        F,
        (SETUP, SETUP + '    os.system("python -m torch.distributed.launch eval.py")\n'),
    ),
    _mutant(
        "DDP906",
        F,
        (
            "from torch.nn.parallel import DistributedDataParallel as DDP",
            "from apex.parallel import DistributedDataParallel as DDP",
        ),
    ),
    _mutant("DDP907", F, (REDUCED, "    dist.all_reduce_multigpu([total])\n")),
]
SHARDED = [
    _mutant(
        "DDPF01",
        S,
        (
            "    for block in model.blocks:\n        fully_shard(block)\n    fully_shard(model)\n",
            "",
        ),
        ("lr=1e-3)\n", "lr=1e-3)\n    fully_shard(model)\n"),
    ),
    _mutant(
        "DDPF02",
        S,
        ("import fully_shard\n", "import FullyShardedDataParallel as FSDP\n"),
        (
            "    for block in model.blocks:\n        fully_shard(block)\n    fully_shard(model)\n",
            "    model = FSDP(model)\n",
        ),
    ),
    _mutant(
        "DDPF03",
        S,
        (
            "    state = get_model_state_dict(model, options=options)\n    if rank == 0:\n",
            "    if rank == 0:\n        state = model.state_dict()\n",
        ),
    ),
    _mutant(
        "DDPF04",
        S,
        (
            "    for block in model.blocks:\n",
            "    if rank == 0:\n"
            '        model.load_state_dict(torch.load("start.pt", map_location="cpu"))\n'
            "    for block in model.blocks:\n",
        ),
    ),
]
ENGINE = [
    _mutant("DDP000", F, ("def main():", "def main(:")),
    _mutant("DDP001", F, ("    best = 0.0\n", "    best = 0.0  # ddpify: ignore[DDP501]\n")),
    _mutant(
        "DDP002",
        ONE,
        ("criterion(model(x), y)\n", "max(row.max() for row in model(x))\n"),
    ),
    _mutant("DDP003", ONE, ("criterion(model(x), y)\n", "criterion(model(x).squeeze(), y)\n")),
]
GROUPS = (
    (ENGINE, DATA, DEVICE, MODEL, SYNCHRONISATION),
    (FILES, RANDOM, LAUNCH, DEPRECATED, SHARDED),
)
MUTANTS = [mutant for groups in GROUPS for group in groups for mutant in group]
