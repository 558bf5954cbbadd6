"""Bugs and right variants of ``distilled_ddp.py``."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

WRAP = "    student = DistributedDataParallel(net)\n"
DRAW = "    draw = torch.Generator().manual_seed(2)\n"
ROWS = "            x, y = x_all[index], y_all[index]\n"
SLICE = "            index = index[rank::world]\n"
NOISE = "torch.randn((len(index), 6), generator=draw)[rank::world]"
SOFT = "                soft = nn.functional.softmax((teacher(x) - center) / 2, 1)\n"
HARD = "            hard = hard * world / summed(weights[y].sum())\n"
DISTANCE = 'soft, reduction="batchmean")\n'
CLAMP = "            for p in student.parameters():\n                p.grad.clamp_(-0.05, 0.05)\n"
BACKWARD = "            loss.backward()\n"
STEP = "            optimizer.step()\n"
CENTER = "            center = 0.9 * center + 0.1 * summed(out.mean(0)) / world\n"
TOTAL = "        total = summed(torch.tensor(total)).item()\n"
SCHEDULE = "        schedule.step()\n"
LAST = "    if rank == 0:\n        torch.save({"
BEST = '            if rank == 0:\n                torch.save(net.state_dict(), "best.pt")\n'
BLOCKS = "[len(index) * rank // world : len(index) * (rank + 1) // world]"

RIGHT = [
    Case("right: as it is", ()),
    Case("right: contiguous slices", (
        (NOISE, NOISE.replace("[rank::world]", BLOCKS)),
        (SLICE, SLICE.replace("[rank::world]", BLOCKS)))),
    Case("right: clipped by PyTorch's function", (
        (CLAMP, "            nn.utils.clip_grad_value_(student.parameters(), 0.05)\n"),)),
    Case("right: clamped under no_grad, from the net", (
        (CLAMP, "            with torch.no_grad():\n                for p in net.parameters():\n"
                "                    p.grad = p.grad.clamp(-0.05, 0.05)\n"),)),
    Case("right: the teacher in front of the loop", (
        (SOFT, "                soft = torch.softmax(whole[index] / 2 - center / 2, 1)\n"),
        (DRAW, DRAW + "    with torch.no_grad():\n        whole = teacher(x_all)\n"))),
    Case("right: the distance is a sum", (
        ('soft, reduction="batchmean")\n', 'soft, reduction="sum") / len(out)\n'),)),
    Case("right: losses apart", (
        (BACKWARD, "            hard.backward(retain_graph=True)\n"
                   "            (2 * distance).backward()\n"),
        ("            loss = hard + 2 * distance\n", "            loss = hard + 2 * distance\n"),
        (WRAP, "    student = net\n"),
        (CLAMP, "            for p in net.parameters():\n                dist.all_reduce(p.grad)\n"
                "                p.grad /= world\n" + CLAMP))),
    Case("right: the center's mean is gathered", (
        (CENTER, "            parts = [torch.empty(CLASSES) for _ in range(world)]\n"
                 "            dist.all_gather(parts, out.detach().mean(0))\n"
                 "            center = 0.9 * center + 0.1 * sum(parts) / world\n"),)),
    Case("right: the total is reduced to rank 0", (
        (TOTAL, "        total = torch.tensor(total)\n        dist.reduce(total, 0)\n"),)),
]  # fmt: skip

BUGS = [
    Case("targets sliced otherwise than inputs", (
        (ROWS, "            x, y = x_all[index], y_all[order[start : start + BATCH]"
               + BLOCKS.replace("len(index)", "(2 * len(index))") + "]\n"),),
        words="target"),
    Case("targets are those of the next rank", (
        (ROWS, "            x = x_all[index]\n            other = order[start : start + BATCH]\n"
               "            y = y_all[other[(rank + 1) % world :: world]]\n"),),
        words="target"),
    Case("the teacher sees the rows of rank 0", (
        (SOFT, "                first = order[start : start + BATCH][0::world]\n"
               + SOFT.replace("teacher(x)", "teacher(x_all[first])")),),
        words="target"),
    Case("the center is one rank's", (
        (CENTER, "            center = 0.9 * center + 0.1 * out.detach().mean(0)\n"),),
        rules=("DDP314",), words="center"),
    Case("the center is not divided", ((CENTER, CENTER.replace(" / world", "")),),
         words="center"),
    Case("the center of rank 0 alone", (
        (CENTER, CENTER.replace("            center", "            moved") +
         "            center = moved if rank == 0 else center\n"),),
        words="center"),
    Case("the last batch is left out", (("range(0, COUNT, BATCH)", "range(0, COUNT - 8, BATCH)"),),
         words="number of steps|fewer|another number|steps"),
    Case("the last batch of one rank is empty-handed", (
        (ROWS, ROWS + "            if rank and len(x) < BATCH // world:\n"
               "                y = y.flip(0)\n"),),
        words="target"),
    Case("the generator is seeded by rank", ((DRAW, DRAW.replace("(2)", "(2 + rank)")),),
         rules=("DDP106", "DDP104", "DDP602")),
    Case("the noise is each rank's first rows", ((NOISE, NOISE.replace(
        "[rank::world]", "[: len(index) // world]")),),
        rules=("DDP601", "DDP412"), words="noise"),
    Case("the noise is drawn after the slice", (
        (SLICE, ""), (NOISE, "torch.randn((len(index[rank::world]), 6), generator=draw)\n"
                      "            index = index[rank::world]")),
        rules=("DDP601", "DDP412"), words="noise"),
    Case("no noise", ((NOISE, "0"),), words="rows|noise"),
    Case("clamped on rank 0 alone", (
        (CLAMP, "            for p in student.parameters() if rank == 0 else ():\n"
                "                p.grad.clamp_(-0.05, 0.05)\n"),),
        rules=("DDP407",)),
    Case("clamped to another limit", ((CLAMP, CLAMP.replace("0.05, 0.05", "0.05, 0.01")),),
         words="clamped"),
    Case("not clamped", ((CLAMP, ""),), words="clamped"),
    Case("clamped before the reduction", (
        (WRAP, "    student = net\n"),
        (CLAMP, CLAMP + "            for p in net.parameters():\n"
                "                dist.all_reduce(p.grad)\n                p.grad /= world\n")),
        rules=("DDP422",)),
    Case("weights of the rank's own classes", (
        ('weight=weights, reduction="sum")\n' + HARD, "weight=weights)\n"),),
        rules=("DDP408", "DDP412", "DDP413")),
    Case("the weighted sum lacks the world size", ((HARD, HARD.replace(" * world", "")),),
         words="factor|weights"),
    Case("the distance is a sum", ((DISTANCE, DISTANCE.replace("batchmean", "sum")),),
         words="loss"),
    Case("the distance is divided by the global batch", (
        (DISTANCE, 'soft, reduction="sum") / (len(out) * world)\n'),),
        rules=("DDP409", "DDP408"), words="loss"),
    Case("the distance is left out", (("loss = hard + 2 * distance", "loss = hard"),),
         words="loss"),
    Case("the weight of the distance grows with the world", (
        ("hard + 2 * distance", "hard + world * 2 * distance"),), words="loss"),
    Case("another teacher", (
        ("CLASSES)).eval()", "CLASSES)).eval().requires_grad_(False)\n"
         "    nn.init.zeros_(teacher[2].bias)"),), words="teacher"),
    Case("the teacher differs by rank", (
        (WRAP, WRAP + "    teacher[2].bias.data += 0.1 * rank * torch.arange(CLASSES)\n"),),
        words="teacher|target"),
    Case("the student is built before the teacher", (
        ("    teacher = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES))"
         ".eval()\n", ""),
        (WRAP, "    teacher = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), "
               "nn.Linear(16, CLASSES)).eval()\n" + WRAP)),
        words="start"),
    Case("no nesterov", ((", nesterov=True", ""),), words="nesterov"),
    Case("dampening", (("momentum=0.9, nesterov=True", "momentum=0.9, dampening=0.1"),),
         words="dampening|nesterov"),
    Case("the schedule steps at each batch", (
        (SCHEDULE, ""), (STEP, STEP + "            schedule.step()\n")), words="schedul"),
    Case("the schedule counts the world", (
        ("CosineAnnealingLR(optimizer, EPOCHS)", "CosineAnnealingLR(optimizer, EPOCHS * world)"),),
        rules=("DDP418", "DDP110")),
    Case("the total of rank 0", ((TOTAL, ""),), rules=("DDP405", "DDP111")),
    Case("the total is divided by the world size", (
        ("total / COUNT:.6f", "total / COUNT / world:.6f"),), words="print|line|number"),
    Case("the accuracy on the training's rows", (
        ("accuracy(net, x_all[COUNT:], y_all[COUNT:])", "accuracy(net, x_all[:40], y_all[:40])"),),
        words="print|line|number|right"),
    Case("each rank's accuracy on its half", (
        ("x_all[COUNT:], y_all[COUNT:]", "x_all[COUNT + rank :: world], "
                                         "y_all[COUNT + rank :: world]"),),
        rules=("DDP405", "DDP111"), words="print"),
    Case("the best is the last", (("        if right > best:\n", "        if True:\n"),),
         words=r"best\.pt"),
    Case("every rank saves the best", ((BEST, BEST.replace("rank == 0", "True")),),
         rules=("DDP501",)),
    Case("the center of rank 1 is saved", (
        (LAST, LAST.replace("rank == 0", "rank == 1")),
        (CENTER, CENTER + "            kept = out.detach().mean(0)\n"),
        ('"center": center}', '"center": kept}')), words=r"last\.pt"),
    Case("the best is saved before the training", (
        (DRAW, DRAW + '    if rank == 0:\n        torch.save(net.state_dict(), "best.pt")\n'),
        (BEST, "")), words=r"best\.pt"),
    Case("dropout that the original lacks", (("nn.ReLU(), ", "nn.ReLU(), nn.Dropout(0.2), "),
        ("nn.Linear(8, CLASSES))\n    student", "nn.Linear(8, CLASSES))\n    student")),
        words="dropout|Dropout|model is another|layer"),
    Case("another activation", (("nn.ReLU()", "nn.GELU()"),), words="model is another|GELU|ReLU"),
    Case("half of the classes' weights", (("[0.5, 1.0, 2.0]", "[1.0, 1.0, 1.0]"),),
         words="loss"),
    Case("the step of rank 1 is skipped while its loss is low", (
        (STEP, "            if rank == 0 or loss.item() > 1.0:\n    " + STEP),),
        rules=("DDP402", "DDP407")),
    Case("the student's parameters are broadcast from rank 1 after each epoch, changed", (
        (SCHEDULE, SCHEDULE + "        for p in net.parameters():\n"
         "            p.data *= 1 + 0.01 * rank\n            dist.broadcast(p.data, 1)\n"),),
        rules=("DDP407", "DDP308")),
]  # fmt: skip

CASES = RIGHT + BUGS
