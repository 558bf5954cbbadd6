"""Bugs to plant in the scripts beside this file, and the finding that each must lead to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One bug.

    Attributes:
        name: A few words.
        script: The script, without its suffix.
        edits: Texts, each of them once in the script, and what takes their place.
        code: The rule that must be named, or several of which one must be.
        line: Part of the line that must be named; empty where no line is due.
    """

    name: str
    script: str
    edits: tuple[tuple[str, str], ...]
    code: str
    line: str


SAMPLER = "sampler=DistributedSampler(test_set)"
STEP = "            optimizer.step()\n"
RANK_0 = "        if rank == 0:\n            print("

BUGS = [
    Bug(
        "no set_epoch",
        "sampled",
        (("        sampler.set_epoch(epoch)\n", ""),),
        "DDP102",
        "loader = DataLoader(train_set",
    ),
    Bug(
        "no sampler",
        "sampled",
        (
            ("batch_size=8, sampler=sampler)", "batch_size=8, shuffle=True)"),
            ("sampler.set_epoch(epoch)", "pass"),
        ),
        "DDP101",
        "loader = DataLoader(train_set",
    ),
    Bug(
        "no sampler and no shuffling",
        "sampled",
        (("batch_size=8, sampler=sampler)", "batch_size=8)"),),
        "DDP101",
        "loader = DataLoader(train_set",
    ),
    Bug(
        "sampler seeded by rank",
        "sampled",
        (("DistributedSampler(train_set)", "DistributedSampler(train_set, seed=rank)"),),
        "DDP604",
        "loader = DataLoader(train_set",
    ),
    Bug(
        "sampler of rank 0 everywhere",
        "sampled",
        (("DistributedSampler(train_set)", "DistributedSampler(train_set, world, 0)"),),
        "DDP104",
        "loader = DataLoader(train_set",
    ),
    Bug(
        "split drawn by each rank",
        "sampled",
        (("[64, 16], generator=generator)", "[64, 16])"),),
        "DDP107",
        "loader = DataLoader(train_set",
    ),
    Bug(
        "evaluation padded",
        "sampled",
        (("[64, 16]", "[65, 15]"),),
        "DDP112",
        "test_loader = DataLoader",
    ),
    Bug(
        "not wrapped",
        "sampled",
        (("DistributedDataParallel(net)", "net"), ("model.module", "model")),
        "DDP303",
        STEP,
    ),
    Bug(
        "forward past the wrapper",
        "sampled",
        (("loss = nn.functional.mse_loss(model(x)", "loss = nn.functional.mse_loss(net(x)"),),
        "DDP304",
        STEP,
    ),
    Bug(
        "forward through .module",
        "sampled",
        (("mse_loss(model(x), y)\n", "mse_loss(model.module(x), y)\n"),),
        "DDP303",
        STEP,
    ),
    Bug(
        "step on rank 0 alone",
        "sampled",
        ((STEP, "            if rank == 0:\n                optimizer.step()\n"),),
        "DDP407",
        STEP,
    ),
    Bug(
        "scheduler follows a local number",
        "sampled",
        (
            ("    dist.all_reduce(total)\n    model.train()", "    model.train()"),
            ("patience=0)", "patience=0, threshold=0.2)"),
        ),
        "DDP406",
        STEP,
    ),
    Bug(
        "local number printed by all",
        "sampled",
        (
            ("        dist.all_reduce(total)\n", ""),
            (RANK_0, "        if True:\n            print("),
            ('os.makedirs("out", exist_ok=True)', "if rank: continue"),
            ("        dist.barrier()\n", ""),
        ),
        "DDP405",
        'print(f"epoch',
    ),
    Bug(
        "printed by all",
        "sampled",
        (("    for epoch in range(3):", '    print("begin")\n    for epoch in range(3):'),),
        "DDP508",
        'print("begin")',
    ),
    Bug(
        "checkpoint written by all",
        "sampled",
        (
            (
                "        dist.barrier()\n",
                '        os.makedirs("out", exist_ok=True)\n'
                '        torch.save(optimizer.state_dict(), "out/o.pt")\n        dist.barrier()\n',
            ),
        ),
        "DDP501",
        'torch.save(optimizer.state_dict(), "out/o.pt")',
    ),
    Bug(
        "barrier on rank 0 alone",
        "sampled",
        (("        dist.barrier()\n", "        if rank == 0:\n            dist.barrier()\n"),),
        "DDP401",
        "dist.barrier()",
    ),
    Bug(
        "a rank leaves the loop by itself",
        "sampled",
        ((STEP, f"{STEP}            if rank == 1 and number == 2:\n                break\n"),),
        "DDP402",
        "",
    ),
    Bug(
        "uneven loaders",
        "sampled",
        (
            ("batch_size=8, sampler=sampler)", "batch_size=8, sampler=range(rank * 40, 64))"),
            ("sampler.set_epoch(epoch)", "pass"),
        ),
        "DDP114",
        "",
    ),
    Bug(
        "parameter without gradient",
        "sampled",
        (("nn.Linear(16, 1)\n", "nn.Linear(16, 1)\n        self.spare = nn.Linear(2, 2)\n"),),
        "DDP316",
        "loss = nn.functional.mse_loss(model(x), y)",
    ),
    Bug(
        "parameters changed on rank 0",
        "sampled",
        (
            (
                "        scheduler.step(score)\n",
                "        scheduler.step(score)\n        if rank == 0:\n"
                "            net.last.bias.data.zero_()\n",
            ),
        ),
        "DDP407",
        STEP,
    ),
    Bug(
        "attribute of the wrapper",
        "sampled",
        (("    best = float", "    model.first\n    best = float"),),
        "DDP309",
        "model.first",
    ),
    Bug(
        "stream not divided",
        "averaged",
        (("            if at % self.world == self.rank:\n", "            if True:\n"),),
        "DDP105",
        "loader = DataLoader(Texts",
    ),
    Bug("no average", "averaged", (("            average(model, world)\n", ""),), "DDP303", STEP),
    Bug(
        "unequal start",
        "averaged",
        (
            (
                "    for parameter in model.parameters():\n        dist.broadcast",
                "    for parameter in []:\n        dist.broadcast",
            ),
        ),
        "DDP322",
        STEP,
    ),
    Bug(
        "a parameter left out of the average",
        "averaged",
        (("for parameter in model.parameters():\n        dist.all_reduce", "for parameter in "
          "list(model.parameters())[1:]:\n        dist.all_reduce"),),
        "DDP305",
        STEP,
    ),
    Bug(
        "logged by all",
        "averaged",
        (("logging.INFO if rank == 0 else logging.ERROR", "logging.INFO"),),
        "DDP508",
        "logging.info(",
    ),
    Bug(
        "text written by all",
        "averaged",
        (('    if rank == 0:\n        with', "    if True:\n        with"),),
        "DDP501",
        'open("log.txt", "w")',
    ),
    Bug(
        "collective in a condition on the data",
        "averaged",
        (
            (
                "            dist.all_reduce(mean)\n",
                "            if x[0, 0] > 10:\n                dist.all_reduce(mean)\n",
            ),
        ),
        "DDP401 DDP402",
        "dist.all_reduce(mean)",
    ),
    Bug(
        "last micro-batch under no_sync",
        "accumulated",
        (("if last else model.no_sync()", "if not last else model.no_sync()"),),
        "DDP415",
        "optimizer.step()",
    ),
    Bug(
        "buffers of their own",
        "accumulated",
        (("DistributedDataParallel(model)\n", "DistributedDataParallel(model, broadcast_buffers"
          "=False)\n"),),
        "DDP312",
        "broadcast_buffers=False",
    ),
    Bug(
        "each rank stops early by itself",
        "accumulated",
        (
            ("        dist.all_reduce(stop)\n", ""),
            ("stop.item() / world < 1e-4", "epoch == rank"),
        ),
        "DDP402",
        "",
    ),
    Bug(
        "optimizer state changed on one rank",
        "accumulated",
        (
            (
                "        scheduler.step()\n",
                "        scheduler.step()\n        if rank == 1:\n"
                "            optimizer.state.clear()\n",
            ),
        ),
        "DDP407",
        "optimizer.step()",
    ),
    Bug(
        "frozen when it was wrapped",
        "accumulated",
        (
            (
                "    model = DistributedDataParallel(model)\n",
                "    model[4].bias.requires_grad = False\n"
                "    model = DistributedDataParallel(model)\n"
                "    model.module[4].bias.requires_grad = True\n",
            ),
        ),
        "DDP306",
        "optimizer.step()",
    ),
    Bug(
        "evaluation on rank 0 through the wrapper",
        "accumulated",
        (
            (
                "        stop = loss.detach()",
                "        if rank == 0:\n            with torch.no_grad():\n"
                "                model(x)\n        stop = loss.detach()",
            ),
        ),
        "DDP403",
        "                model(x)",
    ),
]  # fmt: skip
