"""Bugs in what the ranks train on."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.bugs.edits import SHARDED, WHOLE_TEST
from tests.verify.planting import OPTIONAL, Bug

DATA_BUGS = [
    Bug("no sampler", ((SHARDED, r"\1<loader> = \2"), WHOLE_TEST), (What.DATA,), "DDP101"),
    Bug(
        "no set_epoch",
        ((SHARDED, r"\1<loader> = spread(\2)"), WHOLE_TEST),
        (What.DATA,),
        "DDP102",
    ),
    Bug(
        "sampler seeded by rank",
        ((SHARDED, r"\1<loader> = spread(\2, seed=dist.get_rank())"), WHOLE_TEST),
        (What.DATA,),
        "DDP604",
    ),
    Bug(
        "sampler with rank 0 everywhere",
        (
            (SHARDED, r"\1<loader> = spread(\2, num_replicas=dist.get_world_size(), rank=0)"),
            WHOLE_TEST,
        ),
        (What.DATA,),
        "DDP104",
    ),
    Bug(
        "batch size not divided",
        (
            (SHARDED, r"\1<loader> = spread(\2, divide=False)"),
            WHOLE_TEST,
            (
                OPTIONAL + r"<model>\.train\(\)",
                "<model>.train(); <loader>.sampler.set_epoch(epoch)",
            ),
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
                r"^( *)(<test_loader> = .*)$",
                r"\1\2\n"
                r"\1kept, held = torch.utils.data.random_split(<loader>.dataset, [0.7, 0.3])\n"
                r"\1<loader> = torch.utils.data.DataLoader(kept, 16, shuffle=True)\n"
                r"\1<test_loader> = torch.utils.data.DataLoader(held, 16)",
            ),
            (r"len\(<test_loader>\.dataset\)", "len(<test_loader>.dataset)"),
        ),
    ),
    Bug(
        "contents drawn by each rank",
        (
            (
                SHARDED,
                r"\1<loader> = \2; <loader>.dataset.__class__.__getitem__ = (lambda get: "
                r"lambda self, i: (get(self, i)[0] / (1 + dist.get_rank()), get(self, i)[1]))"
                r"(<loader>.dataset.__class__.__getitem__); "
                r"<loader> = dd.shard(<loader>)",
            ),
        ),
        (What.DATA,),
        "DDP108",
    ),
    Bug(
        "batches drawn by hand, the same on all ranks",
        ((r"len\(<loader>\.dataset\)", "96"),),
        (What.DATA,),
        "DDP106",
        both=(
            (
                r"^( *)(<model> = .*)$",
                r"\1stock = [<loader>.dataset[i] for i in range(96)]\n"
                r"\1class ByHand(list):\n"
                r"\1    dataset = stock\n"
                r"\1<test_loader>, whole = [], <test_loader>\n"
                r"\1<test_loader> = ByHand(<test_loader>)\n"
                r"\1<loader> = ByHand((torch.stack([stock[i][0] for i in ix]), "
                r"torch.as_tensor([int(stock[i][1]) for i in ix])) "
                r"for ix in torch.randperm(96).split(16))\n"
                r"\1\2",
            ),
        ),
    ),
]
