"""Bugs to plant in a converted script, and what verify must say about each.

A bug is a list of replacements (regular expressions), so that the same bug goes into every
script of the shape of PyTorch's MNIST example: ``train()``, ``test()``, ``train_loader``,
``model``, ``optimizer``, ``scheduler``, ``data``, ``target``, ``output``, ``loss``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddpify.verify import What

Edits = tuple[tuple[str, str], ...]

HELPERS = """
import os, sys
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader as Loader, DistributedSampler
def spread(loader, divide=True, **options):
    sampler = DistributedSampler(loader.dataset, **options)
    size = loader.batch_size // dist.get_world_size() if divide else loader.batch_size
    return Loader(loader.dataset, batch_size=size, sampler=sampler)
"""


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes:
        name: What it is.
        edits: Replacements in the converted script.
        what: The kinds of difference that may come first.
        rule: The code that must come first among the suspected rules.
        before: Replacements in the original, before it is converted.
        both: Replacements in the original and in the converted script.
        note: The bug is slow, not wrong: a note must name the rule instead.
    """

    name: str
    edits: Edits
    what: tuple[What, ...]
    rule: str
    before: Edits = ()
    both: Edits = ()
    note: bool = False


def plant(source: str, edits: Edits) -> str:
    """``source`` with every replacement made; raises ValueError where one finds nothing."""
    for pattern, new in edits:
        source, count = re.subn(pattern, new, source, flags=re.MULTILINE)
        if not count:
            raise ValueError(f"nothing to replace: {pattern}")
    return source


def plant_converted(source: str, bug: Bug) -> str:
    """The converted script with the bug and with the names that the bugs use."""
    source = plant(plant(source, bug.both), bug.edits)
    place = "from ddpify import runtime as dd\n"
    return source.replace(place, place + HELPERS, 1)


SHARDED = r"train_loader = dd\.shard\((.*)\)$"
WRAPPED = r"model = dd\.wrap\((.*)\)$"
BACKWARD = r"^( *)loss\.backward\(\)$"
STEP = r"^( *)optimizer\.step\(\)$"
FORWARD = r"^( *)output = model\(data\)\n( *)loss = "
ON_RANK_0 = r"\1if dist.get_rank() == 0: "
WHOLE_TEST = (r"test_loader = dd\.shard\(", "test_loader = dd.replicate(")
DDP_MODEL = (WRAPPED, r"model = DDP(\1)")
PLAIN_KEYS = (r"dd\.save\(model\.state_dict\(\)", "dd.save(model.module.state_dict()")
OWN_EVALUATION = (r"dd\.(sum|mean)\((.*)\)\.item\(\)", r"(\2).item()")
WITH_BATCH_NORM = (
    r"model = (Net\(.*\))\.to\(device\)",
    r"model = torch.nn.Sequential(torch.nn.BatchNorm1d(2) if hasattr(args, 'hidden') "
    r"else torch.nn.BatchNorm2d(1), \1).to(device)",
)
ACCUMULATED: Edits = (
    (
        r"^( *)loss\.backward\(\)\n *optimizer\.step\(\)",
        r"\1loss = loss / 4\n\1loss.backward()\n"
        r"\1if batch_idx % 4 == 3 or batch_idx + 1 == len(train_loader):\n"
        r"\1    optimizer.step()\n\1    optimizer.zero_grad()",
    ),
    (r"^ *optimizer\.zero_grad\(\)\n( *output)", r"\1"),
)
SUMMED: Edits = (
    (r"loss = F\.nll_loss\(output, target\)", "loss = F.nll_loss(output, target, reduction='sum')"),
    (r"lr=args\.lr\)", "lr=args.lr, weight_decay=0.1)"),
)
PER_BATCH_SCHEDULE: Edits = (
    (r"scheduler = StepLR\(.*\)",
     "scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * len(train_loader))\n"
     "    optimizer.register_step_post_hook(lambda *a: scheduler.step())"),
    (r"^( *)scheduler\.step\(\)$", r"\1pass"),
)  # fmt: skip

DATA_BUGS = [
    Bug("no sampler", ((SHARDED, r"train_loader = \1"), WHOLE_TEST), (What.DATA,), "DDP101"),
    Bug(
        "no set_epoch",
        ((SHARDED, r"train_loader = spread(\1)"), WHOLE_TEST),
        (What.DATA,),
        "DDP102",
    ),
    Bug(
        "sampler seeded by rank",
        ((SHARDED, r"train_loader = spread(\1, seed=dist.get_rank())"), WHOLE_TEST),
        (What.DATA,),
        "DDP604",
    ),
    Bug(
        "sampler with rank 0 everywhere",
        (
            (SHARDED, r"train_loader = spread(\1, num_replicas=dist.get_world_size(), rank=0)"),
            WHOLE_TEST,
        ),
        (What.DATA,),
        "DDP104",
    ),
    Bug(
        "batch size not divided",
        (
            (SHARDED, r"train_loader = spread(\1, divide=False)"),
            WHOLE_TEST,
            (r"model\.train\(\)", "model.train(); train_loader.sampler.set_epoch(epoch)"),
        ),
        (What.DATA,),
        "DDP110",
    ),
    Bug(
        "split drawn by each rank",
        ((r"^( *)(kept, held = )", r"\1torch.manual_seed(dist.get_rank())\n\1\2"),),
        (What.DATA,),
        "DDP107",
        before=(
            (
                r"^( *)(test_loader = .*)$",
                r"\1\2\n"
                r"\1kept, held = torch.utils.data.random_split(train_loader.dataset, [0.7, 0.3])\n"
                r"\1train_loader = torch.utils.data.DataLoader(kept, 16, shuffle=True)\n"
                r"\1test_loader = torch.utils.data.DataLoader(held, 16)",
            ),
            (r"len\(test_loader\.dataset\)", "len(test_loader.dataset)"),
        ),
    ),
    Bug(
        "contents drawn by each rank",
        (
            (
                SHARDED,
                r"train_loader = \1; train_loader.dataset.__class__.__getitem__ = (lambda get: "
                r"lambda self, i: (get(self, i)[0] + dist.get_rank(), get(self, i)[1]))"
                r"(train_loader.dataset.__class__.__getitem__); "
                r"train_loader = dd.shard(train_loader)",
            ),
        ),
        (What.DATA,),
        "DDP108",
    ),
    Bug(
        "batches drawn by hand, the same on all ranks",
        ((r"len\(train_loader\.dataset\)", "96"),),
        (What.DATA,),
        "DDP106",
        both=(
            (
                r"^( *)(model = .*)$",
                r"\1stock = [train_loader.dataset[i] for i in range(96)]\n"
                r"\1class ByHand(list):\n"
                r"\1    dataset = stock\n"
                r"\1test_loader, whole = [], test_loader\n"
                r"\1test_loader = ByHand(test_loader)\n"
                r"\1train_loader = ByHand((torch.stack([stock[i][0] for i in ix]), "
                r"torch.as_tensor([int(stock[i][1]) for i in ix])) "
                r"for ix in torch.randperm(96).split(16))\n"
                r"\1\2",
            ),
        ),
    ),
]

UPDATE_BUGS = [
    Bug("scheduler on rank 0", ((r"^( *)(scheduler\.step\(\))", ON_RANK_0 + r"\2"),),
        (What.LEARNING_RATE,), "DDP407"),
    Bug("optimizer on rank 0", ((r"^( *)(optimizer\.step\(\))", ON_RANK_0 + r"\2"),),
        (What.STEPS,), "DDP407"),
    Bug("zero_grad on rank 0", ((r"^( *)(optimizer\.zero_grad\(\))", ON_RANK_0 + r"\2"),),
        (What.GRADIENT, What.LOSS), "DDP407"),
    Bug("two steps a batch", ((STEP, r"\1optimizer.step()\n\1optimizer.step()"),),
        (What.STEPS,), "DDP407"),
    Bug("plateau on a number of one rank",
        ((r"scheduler\.step\(1\.0 / \(1 \+ epoch\)\)",
          "scheduler.step(epoch if dist.get_rank() else 1.0 / (1 + epoch))"),),
        (What.LEARNING_RATE,), "DDP406",
        before=((r"scheduler = StepLR\(.*\)",
                 "scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)"),
                (r"^( *)test\(model, device, test_loader\)\n *scheduler\.step\(\)",
                 r"\1test(model, device, test_loader)\n\1scheduler.step(1.0 / (1 + epoch))"))),
    Bug("schedule by a loader that is split",
        ((r"2 \* len\(train_loader\)", "2 * (len(train_loader) // dist.get_world_size())"),),
        (What.LEARNING_RATE,), "DDP418", before=PER_BATCH_SCHEDULE),
    Bug("learning rate times the world size",
        ((r"lr=args\.lr", "lr=args.lr * dist.get_world_size()"),),
        (What.LEARNING_RATE,), "DDP110"),
    Bug("weights changed on one rank after wrapping",
        ((WRAPPED, r"model = dd.wrap(\1)\n"
          r"    if dist.get_rank(): [p.data.mul_(1.01) for p in model.parameters()]"),),
        (What.START,), "DDP308"),
]  # fmt: skip

GRADIENT_BUGS = [
    Bug("BatchNorm by rank", ((WRAPPED, r"model = dd.wrap(\1, sync_batchnorm=False)"),),
        (What.LOSS, What.GRADIENT), "DDP312", before=(WITH_BATCH_NORM,)),
    Bug("loss over the world size",
        ((BACKWARD, r"\1(loss / dist.get_world_size()).backward()"),),
        (What.LOSS, What.GRADIENT), "DDP409"),
    Bug("loss not over the accumulated batches",
        ((r"loss / 4", "loss"),),
        (What.LOSS, What.GRADIENT), "DDP416", before=ACCUMULATED),
    Bug("sum loss", ((r"loss = dd\.sum\((.*)\)$", r"loss = \1"),),
        (What.LOSS, What.GRADIENT), "DDP408", before=SUMMED),
    Bug("loss over valid tokens",
        ((r"loss = dd\..*$", "keep = target.view(-1) != 0; loss = "
          "(F.nll_loss(output, target, reduction='none') * keep).sum() / keep.sum()"),),
        (What.LOSS, What.GRADIENT), "DDP408",
        before=((r"loss = F\.nll_loss\(output, target\)", "keep = target.view(-1) != 0; loss = "
                 "(F.nll_loss(output, target, reduction='none') * keep).sum() / keep.sum()"),)),
    Bug("forward past the wrapper", (DDP_MODEL, PLAIN_KEYS,
        (FORWARD, r"\1output = model.module(data)\n\2loss = ")),
        (What.LOSS, What.GRADIENT), "DDP303"),
    Bug("a reference from before wrapping", ((WRAPPED, r"model = \1; wrapped = DDP(model)"),),
        (What.LOSS, What.GRADIENT), "DDP304"),
    Bug("frozen when it was wrapped", (PLAIN_KEYS,
        (WRAPPED, r"model = \1; first = next(model.parameters()).requires_grad_(False)\n"
         r"    model = DDP(model); first.requires_grad_(True)")),
        (What.GRADIENT,), "DDP306"),
    Bug("parameters outside the wrapper",
        ((WRAPPED, r"model = \1; name, layer = list(model.named_children())[-1]\n"
          r"    setattr(model, name, DDP(layer))"),),
        (What.GRADIENT,), "DDP305"),
    Bug("two backwards on one forward", (DDP_MODEL, PLAIN_KEYS,
        (BACKWARD, r"\1(loss / 2).backward(retain_graph=True)\n\1(loss / 2).backward()")),
        (What.GRADIENT, What.LOSS), "DDP310"),
    Bug("cast after wrapping", (PLAIN_KEYS, (WRAPPED, r"model = DDP(\1).double()")),
        (What.DEVICE,), "DDP302"),
    Bug("optimizer made before sharding",
        ((r"^( *)model = dd\.wrap\((.*)\)$", r"\1model = \2"),
         (r"^( *)(optimizer = .*)$",
          r"\1\2\n\1from torch.distributed.fsdp import fully_shard\n"
          r"\1from torch.distributed.device_mesh import init_device_mesh\n"
          r"\1fully_shard(model, mesh=init_device_mesh('cpu', (dist.get_world_size(),)))"),
         (r"dd\.save\(.*\)", "model.state_dict()")),
        (What.GRADIENT, What.STEPS), "DDPF01"),
]  # fmt: skip

HANGS = [
    Bug("one rank stops early",
        ((STEP, r"\1optimizer.step()\n"
          r"\1if batch_idx == 2 and epoch == 2 and dist.get_rank() == 1: return"),),
        (What.HANG, What.COLLECTIVE), "DDP402"),
    Bug("one rank skips a batch", (DDP_MODEL, PLAIN_KEYS,
        (BACKWARD, r"\1if batch_idx == 2 and dist.get_rank() == 1: continue\n\1loss.backward()")),
        (What.HANG, What.COLLECTIVE), "DDP402"),
    Bug("barrier on rank 0",
        ((r"^( *)(test\(model, device, test_loader\))", r"\1\2\n" + ON_RANK_0 + "dist.barrier()"),),
        (What.HANG, What.COLLECTIVE), "DDP401"),
    Bug("evaluation on rank 0", (DDP_MODEL, PLAIN_KEYS, OWN_EVALUATION,
        (r"test_loader = dd\.shard\((.*)\)$", r"test_loader = \1"),
        (r"^( *)(test\(model, device, test_loader\))", ON_RANK_0 + r"\2")),
        (What.HANG, What.COLLECTIVE), "DDP403", before=(WITH_BATCH_NORM,)),
]  # fmt: skip

OUTPUT_BUGS = [
    Bug("metric of one rank", ((r"correct \+= dd\.sum\((.*)\)\.item\(\)$",
        r"correct += (\1).item() * dist.get_world_size()"),),
        (What.PRINTED,), "DDP405"),
    Bug("local sum over the whole data set",
        ((r"test_loss \+= dd\.sum\((.*)\)\.item\(\)", r"test_loss += \1.item()"),),
        (What.PRINTED,), "DDP111"),
    Bug("checkpoint by every rank", ((r"dd\.save", "torch.save"),), (What.FILE,), "DDP501"),
    Bug("log by every rank",
        ((r"^( *)(scheduler\.step\(\))$", r"\1\2\n\1open('log.txt', 'a').write('epoch\\n')"),),
        (What.FILE,), "DDP501",
        before=((r"^( *)(scheduler\.step\(\))$",
                 r"\1\2\n\1if int(__import__('os').environ.get('RANK', 0)) == 0:\n"
                 r"\1    open('log.txt', 'a').write('epoch\\n')"),)),
    Bug("the wrapper's keys", (DDP_MODEL,), (What.FILE,), "DDP503"),
    Bug("every rank prints",
        ((r"^( *)dd\.init\(\)$", r"\1descriptor = os.dup(1); stream = sys.stdout; dd.init()\n"
          r"\1os.dup2(descriptor, 1); sys.stdout = stream"),),
        (What.PRINTED,), "DDP508"),
    Bug("the same device everywhere",
        ((r"device = (.*)$", r"device = torch.device('cuda:0')"),), (What.DEVICE,), "DDP201"),
    Bug("loads onto the GPU that saved",
        ((r"torch\.load\('state.pt'.*\)", "torch.load('state.pt')"),
         (r"device = (.*)$", r"device = torch.device('cuda', int(os.environ['LOCAL_RANK']))")),
        (What.DEVICE,), "DDP205",
        before=((r"^( *)(optimizer = .*)$",
                 r"\1torch.save(1, 'state.pt')\n\1torch.load('state.pt')\n\1\2"),)),
    Bug("synchronised at each accumulated batch", (DDP_MODEL, PLAIN_KEYS), (), "DDP801",
        before=ACCUMULATED, note=True),
]  # fmt: skip

FOOLS = [
    Bug("ignores its data", ((FORWARD, r"\1output = model(torch.zeros_like(data))\n\2loss = "),),
        (What.DATA,), ""),
    Bug("trains on rank 0 alone",
        ((SHARDED, r"train_loader = \1"), (WRAPPED, r"model = \1"),
         (r"^(def train\(.*\):)$", r"\1\n    if dist.get_rank(): return"),
         (r"loss = dd\.mean\((.*)\)$", r"loss = \1"), WHOLE_TEST,
         (r"dd\.global_batch_size\(data\)", "len(data)")),
        (What.STEPS, What.WORK, What.DATA), ""),
]  # fmt: skip

BUGS = [*DATA_BUGS, *UPDATE_BUGS, *GRADIENT_BUGS, *HANGS, *OUTPUT_BUGS, *FOOLS]
