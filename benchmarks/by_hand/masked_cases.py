"""Bugs and right variants of ``masked_ddp.py``."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

WRAP = "    model = DistributedDataParallel(net)\n"
DRAW = "    draw = torch.Generator().manual_seed(2)\n"
PICK = "torch.randint(len(train), (16,), generator=draw)"
SLICE = "        batch = batch[rank * 16 // world : (rank + 1) * 16 // world]\n"
COUNT = "        count = summed((following != 0).sum())\n"
LOSS = "        loss = loss_of(model(words), following) * world / count\n"
ZERO = "        optimizer.zero_grad()\n"
BACKWARD = "        loss.backward()\n"
CLIP = "        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"
STEP = "        optimizer.step()\n"
SCHEDULE = "        schedule.step()\n"
SEEN = "        seen += summed(torch.bincount(following.flatten(), minlength=WORDS))\n"
SHOWN = "        shown = summed(loss / world)\n"
DROPOUT = (
    "self.head(self.rnn(self.embedding(words))[0])",
    "self.head(nn.functional.dropout(self.rnn(self.embedding(words))[0], 0.1, self.training))",
)
PRINT = "            if rank == 0:\n                print(f"
SAVE = (
    "    if rank == 0:\n"
    '        with open("history.json", "w") as file:\n'
    "            json.dump(history, file)\n"
    '        torch.save({"model": net.state_dict(), "seen": seen}, "model.pt")\n'
)

RIGHT = [
    Case("right: as it is", ()),
    Case("right: every second text", (
        (SLICE, "        batch = batch[rank::world]\n"),)),
    Case("right: a mean that is weighted by its tokens", (
        (LOSS, "        own = (following != 0).sum()\n"
         "        loss = loss_of(model(words), following) / own * (own * world / count)\n"),)),
    Case("right: the factor is put on the gradients", (
        (LOSS, "        loss = loss_of(model(words), following) / count\n"),
        (CLIP, "        for p in net.parameters():\n            p.grad *= world\n" + CLIP),
        (SHOWN, "        shown = summed(loss)\n"))),
    Case("right: evaluation mode, which no layer asks for", (
        ("            net.train()\n", ""),)),
    Case("right: dropout", (), both=(DROPOUT,)),
    Case("right: uneven parts", (
        (SLICE, "        cut = 16 - 10 // world\n"
         "        batch = batch[:cut] if rank == 0 else "
         "batch[cut:].chunk(world - 1)[rank - 1]\n"),)),
    Case("right: the rows that are seen are gathered", (
        (SEEN, "        found = [torch.zeros_like(following) for _ in range(world)]\n"
         "        dist.all_gather(found, following.contiguous())\n"
         "        seen += torch.bincount(torch.cat(found).flatten(), minlength=WORDS)\n"),)),
    Case("right: another loop makes the batch's numbers", (
        (PICK, "torch.tensor([int(torch.randint(len(train), (1,), generator=draw)) "
         "for _ in range(16)])"),)),
    Case("right: reduced to rank 0 alone, which alone prints it", (
        (SHOWN, "        shown = (loss / world).detach().clone()\n"
         "        dist.reduce(shown, 0)\n"),)),
]  # fmt: skip

BUGS = [
    Case("a mean over the rank's own tokens", (
        (COUNT, "        count = (following != 0).sum()\n"),
        (LOSS, LOSS.replace(" * world", ""))), rules=("DDP408", "DDP413"), words="valid tokens"),
    Case("the world size is left out", ((LOSS, LOSS.replace(" * world", "")),),
         rules=("DDP408", "DDP409")),
    Case("own tokens, and the world size", (
        (COUNT, "        count = (following != 0).sum()\n"),),
         rules=("DDP408", "DDP409", "DDP413"), words="tokens|factor"),
    Case("batches drawn by rank", ((DRAW, DRAW.replace("(2)", "(2 + rank)")),),
         rules=("DDP602", "DDP604", "DDP106", "DDP104")),
    Case("batches drawn from the global generator, seeded by rank", (
        (PICK, "torch.randint(len(train), (16,))"),
        (DRAW, DRAW + "    torch.manual_seed(rank)\n")),
         rules=("DDP602", "DDP604", "DDP106", "DDP104")),
    Case("every rank trains on the whole batch", ((SLICE, ""),), rules=("DDP101", "DDP106")),
    Case("all ranks take the first part", (
        (SLICE, "        batch = batch[: 16 // world]\n"),), rules=("DDP104", "DDP106")),
    Case("parts overlap", (
        (SLICE, "        batch = batch[rank * 4 : rank * 4 + 8]\n"),),
         rules=("DDP104", "DDP106")),
    Case("each rank draws its part alone", (
        (PICK, PICK.replace("(16,)", "(16 // world,)")), (SLICE, "")),
         rules=("DDP106", "DDP104")),
    Case("the batch grows with the world", (
        (PICK, PICK.replace("(16,)", "(16 * world,)")),
        (SLICE, "        batch = batch[rank * 16 : (rank + 1) * 16]\n")),
         rules=("DDP110", "DDP106"), words="batch"),
    Case("not wrapped", ((WRAP, "    model = net\n"),), rules=("DDP303",)),
    Case("the net is called", ((LOSS, LOSS.replace("model(words)", "net(words)")),),
         rules=("DDP303", "DDP304")),
    Case("the tie is cut after the wrap", (
        (WRAP, WRAP + "    own = net.embedding.weight.detach().clone()\n"
         "    net.head.weight = nn.Parameter(own)\n"),),
         rules=("DDP305", "DDP307", "DDP306"), words="parameters|outside"),
    Case("clipped before the backward", ((CLIP, ""), (BACKWARD, CLIP + BACKWARD)),
         rules=("DDP422",), words="clip"),
    Case("clipped to a limit of each rank", ((CLIP, CLIP.replace("0.5", "0.5 + rank")),),
         rules=("DDP422", "DDP407"), words="clip"),
    Case("the schedule is longer", (("at / ROUNDS", "at / (ROUNDS * world)"),),
         rules=("DDP418", "DDP110")),
    Case("the warm-up is divided", (("(at + 1) / 3", "(at + 1) / (3 / world)"),),
         rules=("DDP418", "DDP110")),
    Case("the schedule steps twice", ((SCHEDULE, SCHEDULE + SCHEDULE),), words="schedul"),
    Case("the schedule steps on rank 1 alone", (
        (SCHEDULE, "        if rank == 1:\n    " + SCHEDULE),), rules=("DDP407",)),
    Case("another beta", (("0.95", "0.999"),), words="beta"),
    Case("the optimizer steps when the rank's loss is low", (
        (STEP, "        if loss.item() < 2.38:\n    " + STEP),), rules=("DDP402", "DDP407")),
    Case("skips a round with few tokens of its own", (
        (ZERO, "        if (following != 0).sum() < 42:\n            continue\n" + ZERO),),
         rules=("DDP402",)),
    Case("the validation leaves the model in evaluation mode", (
        ("            net.train()\n", ""),), both=(DROPOUT,), words="evaluation mode"),
    Case("the count of words is one rank's", (
        (SEEN, SEEN.replace("summed(torch.bincount(following.flatten(), minlength=WORDS))",
                            "torch.bincount(following.flatten(), minlength=WORDS)")),),
         words="seen"),
    Case("the loss of one rank is printed", ((SHOWN, "        shown = loss\n"),),
         rules=("DDP405", "DDP413")),
    Case("the validation is divided by the world size", (
        ("math.exp(total / (", "math.exp(total / world / ("),), words="print|valid|number"),
    Case("every rank prints", ((PRINT, PRINT.replace("rank == 0", "True")),), rules=("DDP508",)),
    Case("rank 1 prints", ((PRINT, PRINT.replace("rank == 0", "rank == 1")),),
         rules=("DDP508",)),
    Case("every rank writes", ((SAVE, SAVE.replace("rank == 0", "True")),), rules=("DDP501",)),
    Case("the wrapper's keys", (
        ('{"model": net.state_dict()', '{"model": model.state_dict()'),), rules=("DDP503",)),
    Case("an exchange on rank 0 alone", (
        (SHOWN, "        shown = loss\n        if rank == 0:\n    " + SHOWN),),
         rules=("DDP401",)),
    Case("the validation is of another text", (
        ("texts(80), texts(24)", "texts(80), texts(23)"),), words="print|valid|number"),
    Case("the parameters are rounded after each step on all ranks", (
        (STEP, STEP + "        for p in net.parameters():\n"
         "            p.data = (p.data * 1e4).round() / 1e4\n"),),
         words="something|between|changes"),
    Case("zero_grad in every second round", (
        (ZERO, "        if step % 2 == 0:\n    " + ZERO),), words="zero_grad"),
    Case("no weight decay", (("lr=0.02,", "lr=0.02, weight_decay=0.0,"),), words="weight.decay"),
]  # fmt: skip

CASES = RIGHT + BUGS
