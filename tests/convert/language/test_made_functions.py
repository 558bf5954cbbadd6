"""Functions that functions make: closures, decorators, lambdas with defaults; generators' values.

Converted and run in float64 at 2 and 3 ranks; the last batch has fewer samples than the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.convert.running import assert_trains_the_same

SCRIPT = """\
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.arange(13) % 3), batch_size=5)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.01)
MADE
for a, b in feed:
    scores = brain(a)
    penalty = TAKEN
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print(f"{len(b)=} {penalty.item()=:.6f}")
"""
CLOSURES = """\
def make(kind):
    def inner(scores, wanted):
        return kind(scores, wanted)
    return inner

mean, total = make(nn.CrossEntropyLoss()), make(nn.CrossEntropyLoss(reduction="sum"))
"""
DEFAULTS = """\
rate = nn.CrossEntropyLoss(reduction="sum")

def total(scores, wanted, kind=rate):
    return kind(scores, wanted)

rate = nn.CrossEntropyLoss()
"""
LOGGED = """\
def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        made = function(*args, **kwargs)
        print(function.__name__, f"{made.item():.6f}")
        return made
    return wrapper

@logged
def mean(scores, wanted):
    return F.cross_entropy(scores, wanted, reduction="sum") / len(wanted)

@logged
def total(scores, wanted):
    return F.cross_entropy(scores, wanted, reduction="sum")
"""
COUNTING = """\
class Counting:
    def __init__(self, function):
        self.function, self.sum = function, 0.0

    def __call__(self, *args):
        made = self.function(*args)
        self.sum += made.item()
        print(f"{self.sum:.6f}")
        return made

@Counting
def mean(scores, wanted):
    return F.cross_entropy(scores, wanted)
"""
REGISTERED = """\
KINDS = {}

def register(name):
    def keep(kind):
        KINDS[name] = kind
        return kind
    return keep

@register("total")
class Total:
    def __call__(self, scores, wanted):
        return F.cross_entropy(scores, wanted, reduction="sum")
"""
AVERAGING = """\
def averaging():
    total, count, mean = 0.0, 0, None
    while True:
        one, number = yield mean
        total, count = total + one * number, count + number
        mean = total / count

going = averaging()
next(going)
"""
LATER = """\
head = nn.Linear(3, 3)
rule.add_param_group({"params": head.parameters(), "lr": 0.1})
"""
ELSE = """\
def chosen(scores, wanted):
    for kind in range(3):
        if not (wanted == kind).any():
            made = F.cross_entropy(scores, wanted, reduction="sum")
            break
    else:
        made = 2 * F.cross_entropy(scores, wanted)
    return made
"""
CASES = [
    (CLOSURES, "mean(scores, b) * 2 + total(scores, b)"),
    (DEFAULTS, "total(scores, b) + rate(scores, b)"),
    (LOGGED, "mean(scores, b) + total(scores, b)"),
    (COUNTING, "mean(scores, b)"),
    (REGISTERED, 'KINDS["total"]()(scores, b)'),
    (AVERAGING, "F.cross_entropy(scores, b) * going.send((scores.detach().mean(), len(b)))"),
    (LATER, "F.cross_entropy(head(scores), b)"),
    (ELSE, "chosen(scores, b)"),
]


@pytest.mark.parametrize(("made", "taken"), CASES)
def test_made_functions_train_the_same(tmp_path: Path, trial: Trial, made: str, taken: str) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(SCRIPT.replace("MADE", made).replace("TAKEN", taken))
    converted.write_bytes(convert_file(script, Options()).data)
    assert_trains_the_same(trial, script, converted)
