"""Several batches that come in turn, one in each round: only the last of them is current."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
one = DataLoader(TensorDataset(torch.randn(44, 6), torch.randint(3, (44,))), batch_size=8)
other = DataLoader(TensorDataset(torch.randn(30, 6), torch.randint(3, (30,))), batch_size=5)
feeds = [itertools.cycle(loader) for loader in (one, other)]
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
loss_of = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())


def taken(loaders):
    feeds = [itertools.cycle(loader) for loader in loaders]
    while True:
        yield tuple(next(feed) for feed in feeds)


class Together:
    def __init__(self, loaders):
        self.loaders = loaders

    def __iter__(self):
        feeds = [iter(loader) for loader in self.loaders]
        for _ in range(4):
            yield [next(feed) for feed in feeds]


"""
BOTH = "    step(loss_of(model(x), y) + loss_of(model(u), v))\n"
RIGHT = {
    "one_in_a_round": (
        "for _ in range(8):\n    loss = 0\n    for x, y in [next(feed) for feed in feeds]:\n"
        "        loss = loss + loss_of(model(x), y)\n    step(loss)\n"
    ),
    "one_of_them": (
        "for _ in range(8):\n    batches = [next(feed) for feed in feeds]\n"
        "    x, y = batches[0]\n    step(loss_of(model(x), y))\n"
    ),
    "joined": (
        "both = zip(*feeds)\nfor _ in range(8):\n    batches = [(x, y) for x, y in next(both)]\n"
        "    rows = torch.cat([x for x, y in batches])\n"
        "    step(loss_of(model(rows), torch.cat([y for x, y in batches])))\n"
    ),
}
REFUSED = {
    "list": f"for _ in range(8):\n    (x, y), (u, v) = [next(feed) for feed in feeds]\n{BOTH}",
    "of_one_loader": (
        "feed = iter(one)\nfor _ in range(3):\n"
        f"    (x, y), (u, v) = [next(feed) for _ in range(2)]\n{BOTH}"
    ),
    "mapped": f"for _ in range(8):\n    (x, y), (u, v) = list(map(next, feeds))\n{BOTH}",
    "generator": f"for (x, y), (u, v) in itertools.islice(taken((one, other)), 8):\n{BOTH}",
    "next_of_a_generator": (
        f"both = taken((one, other))\nfor _ in range(8):\n    (x, y), (u, v) = next(both)\n{BOTH}"
    ),
    "iterable": f"for (x, y), (u, v) in Together((one, other)):\n{BOTH}",
    "zipped": f"both = zip(*feeds)\nfor _ in range(8):\n    (x, y), (u, v) = next(both)\n{BOTH}",
    "named": (
        "named = {'a': feeds[0], 'b': feeds[1]}\nfor _ in range(8):\n"
        "    batches = {key: next(feed) for key, feed in named.items()}\n"
        f"    x, y = batches['a']\n    u, v = batches['b']\n{BOTH}"
    ),
    "losses": (
        "for _ in range(8):\n"
        "    step(sum([loss_of(model(x), y) for x, y in (next(feed) for feed in feeds)]))\n"
    ),
}


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_each_is_used_while_it_is_current(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT + lines)
    assert verdict.outcome is Outcome.SAME, verdict


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED)
def test_one_mean_over_several_is_refused(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT + lines)
    assert verdict.outcome is Outcome.REFUSED, verdict
