"""Bugs and right variants of ``segmented_ddp.py``."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

WRAP = "    model = DistributedDataParallel(net)\n"
TRAIN = "train = DataLoader(pairs, batch_sampler=Part(RandomSampler(pairs), BATCH, False))"
VALID = "valid = DataLoader(others, batch_sampler=Part(range(12), 4, False))"
PART = "            yield batch[dist.get_rank() :: dist.get_world_size()]\n"
FLIP = "            if torch.rand(()) < 0.5:\n                x, y = x.flip(-1), y.flip(-1)\n"
COUNT = "frequency += summed(torch.bincount(y.flatten(), minlength=CLASSES))\n"
CROSS = 'nn.functional.cross_entropy(scores, y, weight, reduction="sum")\n'
LOSS = "            loss = loss * world / summed(weight[y].sum()) + overlap(scores, y)\n"
OVERLAP = "all_reduce(both) / all_reduce(each)"
CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
STEP = "            optimizer.step()\n"
ZERO = "            optimizer.zero_grad()\n"
SCHEDULE = "            schedule.step()\n"
AVERAGE = "            average.update_parameters(net)\n"
EMA = "average = AveragedModel(net, multi_avg_fn"
TOTAL = "            total += summed(loss).item() / world\n"
TABLE = "    table = summed(table)\n"
BEST = (
    "            if rank == 0:\n"
    '                torch.save(average.module.state_dict(), "best.pt")\n'
)
SCORE = "        score, averaged = evaluate(net, valid), evaluate(average, valid)\n"

RIGHT = [
    Case("right: as it is", ()),
    Case("right: the wrapper's own parameters", (
        ("    head = [*net[3].parameters()]\n"
         "    body = [p for layer in net[:3] for p in layer.parameters()]\n",
         "    head = [*model.module[3].parameters()]\n"
         "    body = [p for layer in model.module[:3] for p in layer.parameters()]\n"),)),
    Case("right: the average is made of the wrapper", (
        (EMA, EMA.replace("(net", "(model.module")),
        (AVERAGE, AVERAGE.replace("(net", "(model.module")))),
    Case("right: rank 0 alone draws the flip", (
        (FLIP, "            coin = torch.rand(())\n            dist.broadcast(coin, 0)\n"
         + FLIP.replace("torch.rand(())", "coin")),)),
    Case("right: the classes are counted in the gathered masks", (
        (COUNT, "masks = [torch.empty_like(y) for _ in range(world)]\n"
         "            dist.all_gather(masks, y.contiguous())\n"
         "            frequency += torch.bincount(torch.cat(masks).flatten(), "
         "minlength=CLASSES)\n"),)),
    Case("right: every rank validates on all", (
        (VALID, "valid = DataLoader(others, batch_size=4)"), (TABLE, ""))),
    Case("right: two losses, two backwards of one graph", (
        (LOSS, "            first = loss * world / summed(weight[y].sum())\n"
               "            loss = first + overlap(scores, y)\n"),)),
    Case("right: gradients are clipped by hand", (
        (CLIP, "            norm = sum(p.grad.square().sum() for p in net.parameters()).sqrt()\n"
               "            for p in net.parameters():\n"
               "                p.grad.mul_((0.1 / (norm + 1e-6)).clamp(max=1.0))\n"),)),
]  # fmt: skip

BUGS = [
    Case("flips by rank", ((FLIP, FLIP.replace("torch.rand(())", "torch.rand(()) + rank")),),
         rules=("DDP412", "DDP602", "DDP601")),
    Case("the mask is not flipped on rank 1", (
        (FLIP, FLIP.replace("y.flip(-1)", "y.flip(-1) if rank == 0 else y")),), words="target"),
    Case("the mask is flipped the other way", (
        (FLIP, FLIP.replace("y.flip(-1)", "y.flip(-2)")),), words="target"),
    Case("no flips", ((FLIP, ""),), rules=("DDP412",), words="rows"),
    Case("the seed of a rank", (("manual_seed(0)", "manual_seed(dist.get_rank())"),),
         rules=("DDP104", "DDP604", "DDP602")),
    Case("the sampler does not shuffle", (("RandomSampler(pairs)", "range(48)"),),
         words="shuffle|order of the data set"),
    Case("the batch is not sliced", ((TRAIN, "train = DataLoader(pairs, BATCH, shuffle=True)"),),
         rules=("DDP101",)),
    Case("a rank takes contiguous pieces of a batch that is too small", (
        (PART, "            yield batch[dist.get_rank() * 3 : dist.get_rank() * 3 + 3]\n"),),
        rules=("DDP104", "DDP114")),
    Case("the classes of a rank are counted", ((COUNT, COUNT.replace("summed(", "(")),),
         rules=("DDP314",), words="frequency"),
    Case("the classes are averaged", (
        (COUNT, COUNT.replace("\n", " / world\n")),), words="frequency"),
    Case("the classes are counted in the first epoch alone", (
        (COUNT, COUNT.rstrip() + " * (epoch == 0)\n"),), words="frequency"),
    Case("the loss has no weights", ((CROSS, CROSS.replace("y, weight,", "y, None,")),),
         rules=("DDP408",)),
    Case("a mean over the rank's own pixels", (
        (CROSS, "nn.functional.cross_entropy(scores, y, weight)\n"),
        (LOSS, "            loss = loss + overlap(scores, y)\n")), rules=("DDP408", "DDP413")),
    Case("the world size is left out", ((LOSS, LOSS.replace(" * world", "")),),
         rules=("DDP408", "DDP409")),
    Case("the overlap of a rank's pixels", ((OVERLAP, "both / each"),),
         rules=("DDP412", "DDP408")),
    Case("the overlap is reduced without its gradient", (
        (OVERLAP, "summed(both) / summed(each)"),),
        rules=("DDP408", "DDP412", "DDP409"), words="gradient"),
    Case("the overlap is multiplied by the world size", (
        ("+ overlap(scores, y)", "+ world * overlap(scores, y)"),), rules=("DDP408", "DDP409")),
    Case("clipped by the net's first layers", ((CLIP, CLIP.replace("model.", "net[:3].")),),
         words="clip"),
    Case("clipped by value", ((CLIP, CLIP.replace("clip_grad_norm_", "clip_grad_value_")),),
         words="clip"),
    Case("clipped on rank 1 alone", ((CLIP, "            if rank:\n    " + CLIP),), words="clip"),
    Case("noise on the gradients of a rank", (
        (CLIP, "            for p in net.parameters():\n"
               "                p.grad.add_(0.01 * rank)\n" + CLIP),),
        rules=("DDP407",)),
    Case("the gradients are divided once more", (
        (CLIP, "            for p in net.parameters():\n"
               "                p.grad /= world\n" + CLIP),),
        words="chang|factor|times the original"),
    Case("weight decay everywhere", ((', "weight_decay": 0.0}', "}"),), words="weight_decay"),
    Case("one rate for all", (('"lr": 0.05, ', '"lr": 0.01, '),), words="rate"),
    Case("the head is not in the optimizer", (
        ('[{"params": body, "lr": 0.01}, {"params": head, "lr": 0.05, "weight_decay": 0.0}]',
         '[{"params": body, "lr": 0.01}]'),), words="parameters"),
    Case("the schedule counts the world", (("EPOCHS * len(train)", "EPOCHS * len(train) * world"),),
         rules=("DDP418",)),
    Case("the schedule is moved by epoch", (
        (SCHEDULE, ""), (SCORE, "        schedule.step()\n" + SCORE)), words="schedul"),
    Case("the average follows before the step", (
        (AVERAGE, ""), (STEP, AVERAGE + STEP)), words="average|outside"),
    Case("the average has another decay", (("fn(0.9)", "fn(0.9**2)"),), words="average|outside"),
    Case("the average on rank 0 follows the first epoch alone", (
        (AVERAGE, "            if rank or epoch == 0:\n    " + AVERAGE),), words="average|outside"),
    Case("the loss of a rank is shown", (
        (TOTAL, "            total += loss.item()\n"),), rules=("DDP405",)),
    Case("the table of a rank", ((TABLE, ""),), rules=("DDP405", "DDP111", "DDP402"),
         words="print|prints"),
    Case("rank 0 alone validates, and draws from the sampler's stream", (
        (VALID, "valid = DataLoader(others, batch_size=4)"), (TABLE, ""),
        (SCORE, "        both = torch.zeros(2)\n        if rank == 0:\n"
                "            scores = [evaluate(one, valid) for one in (net, average)]\n"
                "            both = torch.tensor(scores)\n"
                "        dist.broadcast(both, 0)\n        score, averaged = both.tolist()\n")),
        rules=("DDP604", "DDP602", "DDP104")),
    Case("the validation stops early", (
        ("Part(range(12), 4, False)", "Part(range(8), 4, False)"),), words="print|evaluat"),
    Case("the best is that of the trained net", (
        (BEST, BEST.replace("average.module", "net")),), words=r"best\.pt"),
    Case("the average's own keys", ((BEST, BEST.replace("average.module", "average")),),
         words=r"best\.pt"),
    Case("every rank writes the log", (
        ('    if rank == 0:\n        with open("log.json"',
          '    if True:\n        with open("log.json"'),),
        rules=("DDP501",)),
    Case("the log has an epoch less", (
        ("        log.append({", "        if epoch:\n            log.append({"),),
        words=r"log\.json"),
    Case("group norm of one group", (("nn.GroupNorm(2, 6)", "nn.GroupNorm(1, 6)"),),
         words="num_groups|model is another"),
    Case("padding", (("padding=1)", "padding=1, padding_mode='reflect')"),), words="padding_mode"),
    Case("a bias that the original lacks", (
        ("nn.Conv2d(6, CLASSES, 1)\n", "nn.Conv2d(6, CLASSES, 1, bias=False)\n"),),
        words="parameters"),
]  # fmt: skip

CASES = RIGHT + BUGS
