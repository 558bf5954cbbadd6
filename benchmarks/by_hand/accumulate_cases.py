"""Bugs and right variants of ``accumulate_ddp.py``."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

SLICE = "            x, y = x[rank::world], y[rank::world]\n            with"
AVERAGE = """                with torch.no_grad():
                    for a, p in zip(average.parameters(), net.parameters(), strict=True):
                        a.lerp_(p, 0.1)
"""
ON_RANK_0 = AVERAGE.replace("a.lerp_(p, 0.1)", "a.lerp_(p, 0.1 if rank == 0 else 0.0)")
SAVE = (
    '            torch.save({"model": net.state_dict(), '
    '"average": average.state_dict()}, "last.pt")'
)
LAST = "last = (index + 1) % ACCUMULATE == 0 or index + 1 == len(train_loader)"
STEP = "                optimizer.step()\n"
CLIP = "                nn.utils.clip_grad_norm_(model.parameters(), 0.2)\n"
BACKWARD = "(loss / ACCUMULATE).backward()"
NO_SYNC = "with contextlib.nullcontext() if last else model.no_sync():"
WRAP = "    model = DistributedDataParallel(net)\n"
EPOCH = '        print(f"epoch {epoch} loss {total / world / len(train_loader):.6f}")\n'
RANK_0 = "        if rank == 0:\n    " + EPOCH
SPARE = """

class Spare(nn.ReLU):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 3)
"""
BY_HAND = (
    (WRAP, "    model = net\n"),
    (NO_SYNC, "with contextlib.nullcontext():"),
    (
        CLIP,
        "                for p in net.parameters():\n"
        "                    dist.all_reduce(p.grad)\n"
        "                    p.grad /= world\n" + CLIP,
    ),
)
AVERAGE_AND_CLIP = BY_HAND[2][1]
NAMES = 'named_parameters() if not name.startswith("1.")'
PRINT = '            print(f"accuracy {accuracy:.4f}")\n'

CASES = [
    Case("right: as it is", ()),
    Case(
        "right: synchronised at every micro-batch",
        ((NO_SYNC, "with contextlib.nullcontext():"),),
    ),
    Case("right: gradients averaged by hand", BY_HAND),
    Case(
        "right: contiguous slices",
        ((SLICE, SLICE.replace("[rank::world]", ".chunk(world)[rank]")),),
    ),
    Case(
        "right: each rank draws numbers that nothing uses",
        ((WRAP, WRAP + "    torch.rand(rank + 1)\n"),),
    ),
    Case(
        "right: gradients compressed to bf16",
        (
            (
                WRAP,
                WRAP + "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                "    model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n",
            ),
        ),
    ),
    Case(
        "right: the plain all-reduce hook",
        (
            (
                WRAP,
                WRAP + "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                "    model.register_comm_hook(None, default_hooks.allreduce_hook)\n",
            ),
        ),
    ),
    Case(
        "right: gradients as views of buckets",
        ((WRAP, "    model = DistributedDataParallel(net, gradient_as_bucket_view=True)\n"),),
    ),
    Case(
        "right: SyncBatchNorm conversion without BatchNorm",
        ((WRAP, "    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n" + WRAP),),
    ),
    Case(
        "decay groups lost by the wrapper's prefix",
        (
            (WRAP, ""),
            (
                "    decayed = [p for name, p in net.",
                WRAP + "    decayed = [p for name, p in model.",
            ),
            ("    plain = [p for name, p in net.", "    plain = [p for name, p in model."),
        ),
        words="weight.decay",
    ),
    Case(
        "leftover micro-batches dropped",
        ((LAST, "last = (index + 1) % ACCUMULATE == 0"),),
        rules=("DDP416",),
        words="micro-batch",
    ),
    Case(
        "accumulation boundary off by one",
        ((LAST, "last = index % ACCUMULATE == 0 or index + 1 == len(train_loader)"),),
        rules=("DDP416",),
        words="micro-batch",
    ),
    Case(
        "another length of the window",
        (("ACCUMULATE = 2", "ACCUMULATE = 3"),),
        rules=("DDP416",),
        words="micro-batch",
    ),
    Case(
        "a step skipped for a local loss",
        ((STEP, "                if loss.item() < 1.1:\n    " + STEP),),
        rules=("DDP402", "DDP407"),
    ),
    Case(
        "steps on rank 0 alone",
        ((STEP, "                if rank == 0:\n    " + STEP),),
        rules=("DDP407",),
    ),
    Case(
        "zero_grad left out",
        (("                optimizer.zero_grad()\n", ""),),
        words="zero_grad",
    ),
    Case(
        "zero_grad on rank 0 alone",
        (
            (
                "                optimizer.zero_grad()\n",
                "                if rank == 0:\n                    optimizer.zero_grad()\n",
            ),
        ),
        rules=("DDP407",),
        words="zero_grad",
    ),
    Case(
        "no_sync at the last micro-batch",
        ((NO_SYNC, "with model.no_sync() if last else contextlib.nullcontext():"),),
        rules=("DDP415",),
    ),
    Case("no_sync at every micro-batch", ((NO_SYNC, "with model.no_sync():"),), rules=("DDP415",)),
    Case(
        "clipped before the reduction",
        (
            *BY_HAND[:2],
            (CLIP, CLIP + AVERAGE_AND_CLIP.replace(CLIP, "")),
        ),
        words="clip",
    ),
    Case("not wrapped", (BY_HAND[0], BY_HAND[1]), rules=("DDP303",)),
    Case(
        "averaged by hand, summed",
        (
            *BY_HAND[:2],
            (CLIP, AVERAGE_AND_CLIP.replace("                    p.grad /= world\n", "")),
        ),
        rules=("DDP409",),
    ),
    Case(
        "the rank's slice is left out",
        ((SLICE, "            with"),),
        rules=("DDP101", "DDP106"),
    ),
    Case(
        "all ranks take the first slice",
        ((SLICE, SLICE.replace("rank::", "0::")),),
        rules=("DDP104", "DDP106"),
    ),
    Case(
        "a slice loses its last sample",
        ((SLICE, SLICE.replace("[rank::world]", "[rank::world][:-1]")),),
        rules=("DDP104", "DDP114"),
    ),
    Case(
        "each rank shuffles its own way",
        (("manual_seed(2)", "manual_seed(2 + rank)"),),
        rules=("DDP604", "DDP106", "DDP602", "DDP104"),
    ),
    Case("shuffle=False", (("shuffle=True", "shuffle=False"),), words="shuffle"),
    Case(
        "the global batch doubles",
        (("batch_size=12, shuffle", "batch_size=24, shuffle"),),
        rules=("DDP110", "DDP416"),
    ),
    Case(
        "per-rank scaling of the loss",
        ((BACKWARD, "(loss * (rank + 1) / ACCUMULATE).backward()"),),
        rules=("DDP408", "DDP410"),
        words="scal|factor",
    ),
    Case(
        "loss divided by the world size",
        ((BACKWARD, "(loss / ACCUMULATE / world).backward()"),),
        rules=("DDP409",),
    ),
    Case("accumulation not divided", ((BACKWARD, "loss.backward()"),), rules=("DDP416",)),
    Case("clipped to another norm", ((CLIP, CLIP.replace("0.2", "0.2 / world")),), words="clip"),
    Case("not clipped", ((CLIP, ""),), words="clip"),
    Case("rate scaled by the world size", (("lr=0.01", "lr=0.01 * world"),), rules=("DDP110",)),
    Case(
        "warm-up divided by the world size",
        (("(step + 1) / 4", "(step + 1) / 4 * world"),),
        rules=("DDP418", "DDP110"),
    ),
    Case(
        "scheduler steps at every micro-batch",
        (
            ("                scheduler.step()\n", ""),
            ("            if last:\n", "            scheduler.step()\n            if last:\n"),
        ),
        rules=("DDP416", "DDP418"),
        words="schedul",
    ),
    Case(
        "scheduler on rank 0 alone",
        (
            (
                "                scheduler.step()\n",
                "                if rank == 0:\n                    scheduler.step()\n",
            ),
        ),
        rules=("DDP407",),
    ),
    Case(
        "another weight decay",
        (('"weight_decay": 0.1', '"weight_decay": 0.0'),),
        words="weight.decay",
    ),
    Case(
        "average on rank 0 alone",
        ((AVERAGE, ON_RANK_0),),
        rules=("DDP407",),
        words="average|outside",
    ),
    Case(
        "average starts from other weights",
        ((WRAP, "    for p in average.parameters():\n        p.data += 0.1\n" + WRAP),),
        words="average|copied|outside",
    ),
    Case(
        "average of another rate",
        (("a.lerp_(p, 0.1)", "a.lerp_(p, 0.1 * world)"),),
        words="average|outside",
    ),
    Case("average is never updated", ((AVERAGE, ""),), words="average|outside"),
    Case(
        "another start on each rank without a broadcast",
        (*BY_HAND, ("manual_seed(0)", "manual_seed(rank)")),
        rules=("DDP601", "DDP602", "DDP322", "DDP308"),
    ),
    Case(
        "checkpoint written before the last step",
        (
            (
                "            if last:\n",
                "            if rank == 0 and index + 1 == len(train_loader):\n"
                + SAVE.replace("            torch", "                torch")
                + "\n            if last:\n",
            ),
            ("\n" + SAVE + "\n    dist", "\n    dist"),
        ),
        words="before the (last )?step|checkpoint.*step",
    ),
    Case(
        "checkpoint of the wrapper",
        ((SAVE, SAVE.replace("net.state", "model.state")),),
        rules=("DDP503",),
    ),
    Case(
        "every rank writes the checkpoint",
        ((SAVE, SAVE.replace("            torch", "        torch")),),
        rules=("DDP501",),
    ),
    Case(
        "local loss is printed",
        (("        dist.all_reduce(total)\n", "        total *= world\n"),),
        rules=("DDP405",),
    ),
    Case(
        "local accuracy is printed",
        (("    dist.all_reduce(counts)\n", ""),),
        rules=("DDP405", "DDP111"),
    ),
    Case("every rank prints", ((RANK_0, EPOCH + "        if rank == 0:\n"),), rules=("DDP508",)),
    Case(
        "one print from rank 1",
        ((RANK_0, "        if rank == 1:\n    " + EPOCH + "        if rank == 0:\n"),),
        rules=("DDP508",),
        words="rank 1",
    ),
    Case(
        "the forward goes past the wrapper",
        (("criterion(model(x), y)", "criterion(net(x), y)"),),
        rules=("DDP303", "DDP304"),
    ),
    Case(
        "a frozen layer is trained later",
        (
            (
                WRAP,
                "    net[0].requires_grad_(False)\n" + WRAP + "    net[0].requires_grad_(True)\n",
            ),
        ),
        rules=("DDP306",),
    ),
    Case(
        "an unused head",
        (),
        both=(("ACCUMULATE = 2\n", f"ACCUMULATE = 2\n{SPARE}"), ("nn.ReLU()", "Spare()")),
        rules=("DDP316",),
        words="find_unused_parameters",
    ),
    Case(
        "noise of each rank's own on the input",
        (
            (
                SLICE,
                SLICE.replace(
                    "            with",
                    "            own = torch.Generator().manual_seed(rank)\n"
                    "            x = x + 0.1 * torch.randn(x.shape, generator=own)\n"
                    "            with",
                ),
            ),
        ),
        rules=("DDP601", "DDP602", "DDP106"),
        words="changed after",
    ),
    Case(
        "local mixup",
        (
            (
                SLICE,
                SLICE.replace(
                    "            with",
                    "            x = 0.7 * x + 0.3 * x.flip(0)\n            with",
                ),
            ),
        ),
        rules=("DDP412", "DDP106"),
        words="changed after",
    ),
    Case(
        "one rank leaves the loop early",
        (
            (
                "            if last:\n",
                "            if rank == 1 and index == 6:\n                break\n"
                "            if last:\n",
            ),
        ),
        rules=("DDP402", "DDP401"),
    ),
]
