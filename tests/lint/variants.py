# ruff: noqa: E501 (lines of scripts, as they stand there)
"""Pitfalls in other words than on the rules' pages, each planted in a script that is right.

``idioms`` is a script with the objects and helpers that many projects share: options that decide
whether it is distributed, a scaler object, a logger that goes over a loader.
"""

from __future__ import annotations

from typing import NamedTuple


class Variant(NamedTuple):
    """A planted pitfall: any of the ``codes`` names it."""

    name: str
    codes: str
    script: str
    changes: tuple[tuple[str, str], ...]


def _variant(name: str, codes: str, script: str, *changes: tuple[str, str]) -> Variant:
    return Variant(name, codes, script, changes)


F, T, IDIOM, ONE = "functions", "trainer", "idioms", "one_gpu"
FORWARD = "            loss = criterion(model(x), y)\n"
SCALED = "        scaler.scale(loss).backward()\n"
ADDED = "        total += loss.detach()\n"
EPOCH = "        sampler.set_epoch(epoch)\n"
REDUCED = "    dist.all_reduce(hits)\n"
BEST = "        best = max(best, accuracy)\n"
BUILT = "    model = build_model(local_rank, device)\n"
MADE = "    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)\n"
STEPS = "    steps = args.epochs * len(loader)\n"
SAVED = "            if accuracy > best:\n"
NET = "class Net(nn.Module):\n"
ADVANCED = "            self.schedule.step(loss)\n"
LAST = "            if last:\n"
STOPPER = """class Stopper:
    def __init__(self, patience):
        self.patience, self.bad, self.best = patience, 0, None
        self.stop = False

    def __call__(self, value):
        if self.best is None or value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
            self.stop = self.bad >= self.patience
        return self.stop


"""
CONTROL = [
    _variant(
        "a collective under the rank's own loss",
        "DDP401 DDP402",
        F,
        (ADDED, ADDED + "        if loss.item() > 10:\n            dist.all_reduce(total)\n"),
    ),
    _variant(
        "a barrier under the size of the rank's own batch",
        "DDP401 DDP402",
        F,
        (ADDED, ADDED + "        if len(x) == 8:\n            dist.barrier()\n"),
    ),
    _variant(
        "a collective under a writer that rank 0 alone has",
        "DDP401",
        T,
        (
            ADVANCED,
            ADVANCED + "            if self.writer is not None:\n"
            "                dist.all_reduce(torch.ones(1, device=self.device))\n",
        ),
    ),
    _variant(
        "a collective behind a writer that rank 0 alone has",
        "DDP401 DDP402",
        T,
        (
            ADVANCED,
            "            if self.writer is None:\n                continue\n"
            + ADVANCED
            + "            dist.barrier()\n",
        ),
    ),
    _variant(
        "an evaluation with collectives that the other ranks leave out",
        "DDP401 DDP402 DDP403",
        F,
        (
            "        accuracy = evaluate(model, val_loader, device)\n",
            "        if dist.get_rank() != 0:\n            continue\n"
            "        accuracy = evaluate(model, val_loader, device)\n",
        ),
    ),
    _variant(
        "patience that counts the rank's own accuracies",
        "DDP402",
        F,
        (REDUCED, ""),
        ("    best = 0.0\n", "    best, bad = 0.0, 0\n"),
        (
            BEST,
            "        if accuracy <= best:\n            bad += 1\n            if bad >= 3:\n"
            "                break\n        else:\n            bad = 0\n" + BEST,
        ),
    ),
    _variant(
        "patience in one expression",
        "DDP402",
        F,
        (REDUCED, ""),
        ("    best = 0.0\n", "    best, bad = 0.0, 0\n"),
        (
            BEST,
            "        bad = 0 if accuracy > best else bad + 1\n"
            + BEST
            + "        if bad > 2:\n            break\n",
        ),
    ),
    _variant(
        "a stopper whose call gives the flag",
        "DDP402",
        F,
        (REDUCED, ""),
        (NET, STOPPER + NET),
        ("    best = 0.0\n", "    best, stopper = 0.0, Stopper(3)\n"),
        (BEST, BEST + "        if stopper(accuracy):\n            break\n"),
    ),
    _variant(
        "a stopper whose attribute is the flag",
        "DDP402",
        F,
        (REDUCED, ""),
        (NET, STOPPER + NET),
        ("    best = 0.0\n", "    best, stopper = 0.0, Stopper(3)\n"),
        (BEST, BEST + "        stopper(accuracy)\n        if stopper.stop:\n            break\n"),
    ),
    _variant(
        "a flag that the rank's own accuracy sets",
        "DDP402",
        F,
        (REDUCED, ""),
        ("    best = 0.0\n", "    best, stop = 0.0, False\n"),
        (
            BEST,
            BEST + "        if accuracy > 0.99:\n            stop = True\n"
            "        if stop:\n            break\n",
        ),
    ),
    _variant(
        "a return out of the batches",
        "DDP402",
        F,
        (SCALED, "        if not torch.isfinite(loss):\n            return 0.0\n" + SCALED),
    ),
    _variant(
        "a step that an out-of-memory handler leaves out",
        "DDP404",
        F,
        (
            SCALED,
            "        try:\n    " + SCALED + "        except RuntimeError as error:\n"
            '            if "out of memory" in str(error):\n'
            "                torch.cuda.empty_cache()\n                continue\n"
            "            raise\n",
        ),
    ),
    _variant(
        "a step that a handler with an else leaves out",
        "DDP404",
        F,
        (
            SCALED,
            "        try:\n    " + SCALED + "        except RuntimeError as error:\n"
            '            if "memory" in str(error):\n                optimizer.zero_grad()\n'
            "            else:\n                raise error\n",
        ),
    ),
]
MODEL = [
    _variant(
        "a part that an epoch freezes, one by one",
        "DDP306",
        F,
        (
            EPOCH,
            EPOCH + "        if epoch == 3:\n"
            "            for p in model.module.features.parameters():\n"
            "                p.requires_grad = False\n",
        ),
    ),
    _variant(
        "parameters that an epoch freezes by name",
        "DDP306",
        F,
        (
            EPOCH,
            EPOCH + "        for name, p in model.named_parameters():\n"
            '            if "features" in name:\n                p.requires_grad = epoch > 3\n',
        ),
    ),
    _variant(
        "a part that an epoch freezes at once",
        "DDP306",
        F,
        (
            EPOCH,
            EPOCH + "        if epoch == 3:\n"
            "            model.module.features.requires_grad_(False)\n",
        ),
    ),
    _variant(
        "a parameter of its own beside the model's",
        "DDP305",
        F,
        (
            MADE,
            "    scale = nn.Parameter(torch.ones(1, device=device))\n"
            "    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=args.lr)\n",
        ),
        (
            "schedule, scaler, criterion, device)\n        acc",
            "schedule, scaler, lambda a, b: criterion(a * scale, b), device)\n        acc",
        ),
    ),
    _variant(
        "a parameter of its own in a parameter group",
        "DDP305",
        F,
        (
            MADE,
            "    scale = nn.Parameter(torch.ones(1, device=device))\n"
            '    groups = [{"params": model.parameters()}, {"params": [scale], "lr": 0.01}]\n'
            "    optimizer = torch.optim.SGD(groups, lr=args.lr)\n",
        ),
        (
            "schedule, scaler, criterion, device)\n        acc",
            "schedule, scaler, lambda a, b: criterion(a * scale, b), device)\n        acc",
        ),
    ),
    _variant(
        "the model inside the wrapper, by a name",
        "DDP303 DDP304",
        F,
        (
            "        loss = train_epoch(model,",
            "        model_without_ddp = model.module\n"
            "        loss = train_epoch(model_without_ddp,",
        ),
    ),
    _variant(
        "the model before the wrapper, by a name",
        "DDP303 DDP304",
        IDIOM,
        (
            "            loss = criterion(model(x), y)\n",
            "            loss = criterion(model_without_ddp(x), y)\n",
        ),
    ),
    _variant(
        "DataParallel where there are several GPUs",
        "DDP301",
        ONE,
        (
            "    criterion =",
            "    if torch.cuda.device_count() > 1:\n"
            "        model = nn.DataParallel(model)\n    criterion =",
        ),
    ),
    _variant(
        "DataParallel inside the wrapper where there are several GPUs",
        "DDP301",
        F,
        (
            "    return DDP(net, ",
            "    if torch.cuda.device_count() > 1:\n        net = nn.DataParallel(net)\n    return DDP(net, ",
        ),
    ),
    _variant(
        "half of a model moved before the wrapper",
        "DDP207",
        F,
        ("    net = Net().to(device)\n", "    net = Net()\n    net.features.to(device)\n"),
    ),
]
DEVICE = [
    _variant(
        "a device in a class of settings",
        "DDP201",
        F,
        (NET, 'class Settings:\n    device = "cuda:0"\n\n\n' + NET),
        ("Net().to(device)", "Net().to(Settings.device)"),
    ),
    _variant(
        "a device in an object of settings",
        "DDP201",
        F,
        (
            NET,
            'class Settings:\n    def __init__(self):\n        self.device = "cuda:0"\n\n\n' + NET,
        ),
        ("Net().to(device)", "Net().to(Settings().device)"),
    ),
    _variant(
        "a device as the default of a data class",
        "DDP201",
        F,
        ("import argparse\n", "import argparse\nfrom dataclasses import dataclass\n"),
        (NET, '@dataclass\nclass Settings:\n    device: str = "cuda:0"\n\n\n' + NET),
        ("Net().to(device)", "Net().to(Settings().device)"),
    ),
    _variant(
        "a device in a dictionary",
        "DDP201",
        F,
        (NET, 'SETTINGS = {"device": "cuda:0", "width": 16}\n\n\n' + NET),
        ("Net().to(device)", 'Net().to(SETTINGS["device"])'),
    ),
    _variant(
        "no GPU is chosen",
        "DDP201 DDP202",
        F,
        ("    torch.cuda.set_device(local_rank)\n", ""),
        ('    device = torch.device("cuda", local_rank)\n', '    device = torch.device("cuda")\n'),
    ),
    _variant(
        "weights of a loss beside the GPU of a text",
        "DDP206",
        F,
        ('torch.device("cuda", local_rank)', 'f"cuda:{local_rank}"'),
        ("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(weight=torch.ones(10))"),
    ),
    _variant(
        "a file that the first GPU of each node writes",
        "DDP502",
        F,
        (
            "        if rank == 0:\n            print",
            "        if device.index == 0:\n            print",
        ),
    ),
    _variant(
        "a file that the first rank of each node writes",
        "DDP502",
        F,
        (
            "        if rank == 0:\n            print",
            "        if rank % torch.cuda.device_count() == 0:\n            print",
        ),
    ),
    _variant(
        "a sampler that counts the ranks of a node",
        "DDP104",
        F,
        (
            "DistributedSampler(train, seed=args.seed)",
            "DistributedSampler(train, num_replicas=world_size,"
            " rank=dist.get_rank() % torch.cuda.device_count(), seed=args.seed)",
        ),
    ),
    _variant(
        "as many ranks as a node has GPUs",
        "DDP104 DDP706",
        F,
        (
            "DistributedSampler(train, seed=args.seed)",
            "DistributedSampler(train, num_replicas=torch.cuda.device_count(),"
            " rank=dist.get_rank(), seed=args.seed)",
        ),
    ),
    _variant(
        "inputs that are never moved",
        "DDP208",
        F,
        ("DDP(net, device_ids=[local_rank])", "DDP(net)"),
        (
            "        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n",
            "        y = y.to(device)\n",
        ),
    ),
    _variant(
        "targets that are never moved",
        "DDP208",
        F,
        (
            "        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n",
            "        x = x.to(device)\n",
        ),
    ),
]
DATA = [
    _variant(
        "a sampler's seed of the rank, by an option",
        "DDP604",
        F,
        ("    seed_all(args.seed)\n", "    args.rank = rank\n    seed_all(args.seed)\n"),
        (
            "DistributedSampler(train, seed=args.seed)",
            "DistributedSampler(train, seed=args.seed + args.rank)",
        ),
    ),
    _variant(
        "an epoch that rank 0 alone is told",
        "DDP102",
        F,
        (EPOCH, "        if rank == 0:\n            sampler.set_epoch(epoch)\n"),
    ),
    _variant(
        "an epoch that another sampler is told",
        "DDP102",
        F,
        (EPOCH, "        val_loader.sampler.set_epoch(epoch)\n"),
    ),
    _variant(
        "no sampler beside a seed for each rank",
        "DDP101",
        F,
        ("    seed_all(args.seed)\n", "    seed_all(args.seed + rank)\n"),
        ("batch, sampler=sampler, num", "batch, shuffle=True, num"),
    ),
    _variant(
        "a schedule of the whole data, by its length",
        "DDP418",
        F,
        (
            STEPS,
            "    steps = args.epochs * (len(loader.dataset) // 64)\n",
        ),
    ),
    _variant(
        "a loss of rank 0's in its log",
        "DDP405",
        T,
        (
            "        mean = torch.tensor(total / len(self.loader), device=self.device)\n",
            '        if self.rank == 0:\n            self.writer.add_scalar("own", total / len(self.loader), epoch)\n'
            "        mean = torch.tensor(total / len(self.loader), device=self.device)\n",
        ),
    ),
    _variant(
        "a meter of rank 0's in its log",
        "DDP405",
        IDIOM,
        (
            "            logger.update(loss=loss.item())\n",
            "            logger.update(loss=loss.item())\n            seen.update(loss.item(), x.size(0))\n",
        ),
        ("    logger = MetricLogger()\n", "    logger, seen = MetricLogger(), Average()\n"),
        (
            "    logger.synchronize()\n",
            "    logger.synchronize()\n    if is_main_process():\n        print(seen.sum / seen.count)\n",
        ),
    ),
    _variant(
        "a trace that all ranks write",
        "DDP501",
        F,
        (
            "    best = 0.0\n",
            '    best = 0.0\n    with torch.profiler.profile() as profile:\n        evaluate(model, val_loader, device)\n    profile.export_chrome_trace("trace.json")\n',
        ),
    ),
    _variant(
        "gradients clipped in a scaler object before unscale_",
        "DDP422",
        IDIOM,
        (
            "            self.scaler.unscale_(optimizer)\n            torch.nn.utils.clip_grad_norm_(parameters, clip)\n",
            "            torch.nn.utils.clip_grad_norm_(parameters, clip)\n            self.scaler.unscale_(optimizer)\n",
        ),
    ),
]
IDIOMS = [
    _variant(
        "idioms: no sampler",
        "DDP101",
        IDIOM,
        (
            "        sampler = DistributedSampler(data)\n",
            "        sampler = torch.utils.data.RandomSampler(data)\n",
        ),
        ("            loader.sampler.set_epoch(epoch)\n", "            pass\n"),
    ),
    _variant(
        "idioms: no epoch",
        "DDP102",
        IDIOM,
        ("            loader.sampler.set_epoch(epoch)\n", "            pass\n"),
    ),
    _variant(
        "idioms: a checkpoint of all ranks",
        "DDP501",
        IDIOM,
        ("        if args.output and is_main_process():\n", "        if args.output:\n"),
    ),
    _variant(
        "idioms: a barrier for rank 0",
        "DDP401",
        IDIOM,
        (
            "        if args.output and is_main_process():\n",
            "        if is_main_process():\n            dist.barrier()\n        if args.output and is_main_process():\n",
        ),
    ),
    _variant(
        "idioms: a way out by the rank's own loss",
        "DDP402",
        IDIOM,
        (
            "            logger.update(loss=loss.item())\n",
            "            logger.update(loss=loss.item())\n            if loss.item() > 100:\n                break\n",
        ),
    ),
    _variant(
        "idioms: a hard-coded GPU",
        "DDP201",
        IDIOM,
        ("    model = Net().to(device)\n", '    model = Net().to("cuda:0")\n'),
    ),
    _variant(
        "idioms: saved with the wrapper's prefix",
        "DDP503",
        IDIOM,
        ('"model": model_without_ddp.state_dict()', '"model": model.state_dict()'),
    ),
    _variant(
        "idioms: loaded to the GPU that saved",
        "DDP205",
        IDIOM,
        ("torch.load(args.resume, map_location=device)", "torch.load(args.resume)"),
    ),
    _variant(
        "idioms: a log without a reduction",
        "DDP405",
        IDIOM,
        (
            "    logger.synchronize()\n",
            "    if is_main_process():\n        print(logger.meters['loss'].total / logger.meters['loss'].count)\n",
        ),
    ),
    _variant(
        "idioms: moved after the wrapper",
        "DDP302",
        IDIOM,
        (
            "        model_without_ddp = model.module\n",
            "        model_without_ddp = model.module\n        model = model.half()\n",
        ),
    ),
]
VARIANTS = [*CONTROL, *MODEL, *DEVICE, *DATA, *IDIOMS]
NOT_FOUND: tuple[str, ...] = ("a barrier under the size of the rank's own batch",)
