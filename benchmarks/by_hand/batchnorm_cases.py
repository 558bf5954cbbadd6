"""Bugs and right variants of ``batchnorm_ddp.py``."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

SYNC = "    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n"
WRAP = "    model = DistributedDataParallel(net, device_ids=[device])\n"
CPU = (
    ('"nccl"', '"gloo"'),
    ('    device = int(os.environ["LOCAL_RANK"])\n    torch.cuda.set_device(device)\n', "    "
     'device = torch.device("cpu")\n'),
    (", device_ids=[device])", ")"),
)  # fmt: skip
NOISE = "            x = x + 0.1 * torch.randn(x.shape, generator=noise)\n"
SLICE = "            x, y = x[rank::world].to(device), y[rank::world].to(device)\n"
CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "            optimizer.step()\n"
HOOK = (
    "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
    "    model.register_comm_hook(None, default_hooks.{}_hook)\n"
)
CENTER = "            center.mul_(0.9).add_(mean / world, alpha=0.1)\n"
REDUCE = "            dist.all_reduce(mean)\n"
OWN_NOISE = "    noise = torch.Generator().manual_seed(3 + rank)\n"

RIGHT = [
    Case("right: noise drawn after the slice, each rank its own", (
        (NOISE, ""), (SLICE, SLICE + NOISE),
        ("    noise = torch.Generator().manual_seed(3)\n", OWN_NOISE))),
    Case("right: as it is, written for GPUs", ()),
    Case("right: written for the CPU", CPU),
    Case("right: fp16 gradients", ((WRAP, WRAP + HOOK.format("fp16_compress")),)),
    Case("right: bf16 gradients", ((WRAP, WRAP + HOOK.format("bf16_compress")),)),
    Case("right: contiguous slices", (
        (SLICE, SLICE.replace("[rank::world]", ".chunk(world)[rank]")),)),
    Case("right: buffers are not broadcast", (
        (WRAP, WRAP.replace("])", "], broadcast_buffers=False)")),)),
    Case("right: static graph", ((WRAP, WRAP.replace("])", "], static_graph=True)")),)),
    Case("right: gradients set to zero", (("zero_grad()", "zero_grad(set_to_none=False)"),)),
    Case("right: clipped by the net's parameters", (
        (CLIP, CLIP.replace("model.param", "net.param")),)),
    Case("right: synchronised in fine grain", (
        (WRAP, WRAP + "    model.register_forward_hook(lambda *given: None)\n"),)),
    Case("right: the optimizer holds the net's parameters", (
        ("SGD(model.", "SGD(net."),)),
    Case("right: barriers", ((STEP, STEP + "            dist.barrier()\n"),)),
    Case("right: rank 0 evaluates the bare net", (
        ("            print(f", "            net.eval()\n            with torch.no_grad():\n"
         "                net(x)\n            print(f"),)),
    Case("right: averaged with AVG's equal, a sum divided", (
        (REDUCE + CENTER, "            dist.all_reduce(mean.div_(world))\n"
         + CENTER.replace(" / world", "")),)),
]  # fmt: skip

BUGS = [
    Case("statistics of each rank's own", ((SYNC, ""),), rules=("DDP312",)),
    Case("evaluation mode", (("model.train()", "model.eval()"),), words="eval"),
    Case("another momentum of BatchNorm", (
        ("nn.BatchNorm2d(6)", "nn.BatchNorm2d(6, momentum=0.2)"),), words="momentum"),
    Case("BatchNorm without running statistics", (
        ("nn.BatchNorm2d(6)", "nn.BatchNorm2d(6, track_running_stats=False)"),),
        words="track_running_stats|running_"),
    Case("another eps of BatchNorm", (("nn.BatchNorm2d(6)", "nn.BatchNorm2d(6, eps=0.1)"),),
         words=r"\beps\b"),
    Case("noise drawn after the slice, equal on all ranks", (
        (NOISE, ""), (SLICE, SLICE + NOISE)), words="random|noise|draw"),
    Case("center of each rank's own", ((REDUCE, ""), (CENTER, CENTER.replace(" / world", ""))),
         words="center|outside"),
    Case("center summed", ((CENTER, CENTER.replace(" / world", "")),), words="center|outside"),
    Case("center never moves", ((CENTER, ""),), words="center|outside"),
    Case("center on rank 0 alone", (
        (CENTER, "            if rank == 0:\n    " + CENTER),), rules=("DDP407",),
        words="center|outside"),
    Case("schedule by batch", (
        ("        scheduler.step()\n", ""), (CENTER, CENTER + "            scheduler.step()\n")),
        words="schedul"),
    Case("no schedule", (("        scheduler.step()\n", ""),), words="schedul"),
    Case("clipping after the step", ((CLIP, ""), (STEP, STEP + CLIP)), words="clip"),
    Case("another momentum of SGD", (("momentum=0.9", "momentum=0.0"),), words="momentum"),
    Case("another class of loss", (
        ("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(label_smoothing=0.1)"),),
        words="loss"),
    Case("a summed loss", (
        ("nn.CrossEntropyLoss()", 'nn.CrossEntropyLoss(reduction="sum")'),),
        rules=("DDP408", "DDP409", "DDP416"), words="loss"),
    Case("one epoch fewer", (("range(3)", "range(2)"),), words="step"),
    Case("the last batch is dropped", (("batch_size=12,", "batch_size=14, drop_last=True,"),),
         rules=("DDP110", "DDP114", "DDP416"), words="batch"),
    Case("the set loses its end", (("data(1, 60)", "data(1, 48)"),), rules=("DDP114", "DDP104"),
         words="no rank"),
    Case("a layer is frozen", ((SYNC, SYNC + "    net[0].requires_grad_(False)\n"),),
         rules=("DDP306",), words="frozen|no gradient"),
    Case("the first layer starts elsewhere", ((SYNC, SYNC + "    net[0].reset_parameters()\n"),),
         rules=("DDP308",)),
    Case("parameters drift", ((STEP, STEP + "            net[4].bias.data.mul_(0.99)\n"),),
         words="something|between|changes"),
    Case("weights saved before training", (
        ('            torch.save(net.state_dict(), "last.pt")\n', ""),
        ("    criterion =", '    if rank == 0:\n        torch.save(net.state_dict(), "last.pt")\n'
         "    criterion ="),), words="last.pt.*(step|earlier|before)"),
    Case("a hang: barrier on rank 0", (
        (STEP, STEP + "            if rank == 0:\n                dist.barrier()\n"),),
        rules=("DDP401", "DDP407")),
]  # fmt: skip

CASES = RIGHT + BUGS
