"""What calls are given by name: parts of a batch, also beforehand by ``functools.partial``.

Converted and run in float64 at 2 and 3 ranks; the last batch has fewer samples than the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.convert.running import assert_trains_the_same

OF_NAMED_PARTS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from collections import OrderedDict
from types import SimpleNamespace

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Output(dict):
    def __getattr__(self, name):
        return self[name]


class Settable(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class Checked(OrderedDict):
    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, inputs, wanted=None, scaled=False):
        scores = self.second(torch.relu(self.first(inputs)))
        if scaled:
            scores = scores / scores.detach().norm()
        loss = F.cross_entropy(scores, wanted) if wanted is not None else None
        GIVEN


rows = [{"inputs": torch.randn(4), "wanted": i % 3} for i in range(13)]
feed = DataLoader(rows, batch_size=5, shuffle=True)
check = DataLoader(rows, batch_size=5)
brain = Tagger()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for epoch in range(2):
    for batch in feed:
        made = brain(**batch)
        penalty = TAKEN
        rule.zero_grad()
        penalty.backward()
        rule.step()
    for batch in check:
        with torch.no_grad():
            made = brain(**batch)
        number = TAKEN.item()
        print(f"{number:.6f}", SCORES.argmax(1).tolist())
"""
GIVEN_BACK = [
    ('return {"loss": loss, "scores": scores}', 'made["loss"]', 'made["scores"]'),
    ("return loss, scores", "made['loss'] if isinstance(made, dict) else made[0]", "made[1]"),
    ("return SimpleNamespace(loss=loss, scores=scores)", "made.loss", "made.scores"),
    ("return Output(loss=loss, scores=scores)", "made.loss", "made.scores"),
    (
        "made = Settable(); made.scores = scores; made.loss = loss; return made",
        "made['loss']",
        "made.scores",
    ),
    (
        "return Checked([('scores', scores)], loss=loss)",
        "(made.loss if isinstance(made, dict) else made[0])",
        "dict(made.items())['scores']",
    ),
]
BOUND = """\
import functools
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.randint(0, 3, (13,))), batch_size=5)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.01)


def measure(scores, wanted, how="mean"):
    return F.cross_entropy(scores, wanted, reduction=how)


class Measure:
    def __init__(self, how="mean"):
        self.how = how

    def __call__(self, scores, wanted):
        return F.cross_entropy(scores, wanted, reduction=self.how)


BINDING
for a, b in feed:
    rule.zero_grad()
    penalty = bound(brain(a), b)
    penalty.backward()
    rule.step()
    print(f"{penalty.item():.6f}")
"""
BINDINGS = [
    'bound = functools.partial(F.cross_entropy, reduction="sum")',
    'bound = functools.partial(measure, how="sum")',
    'bound = functools.partial(Measure, how="sum")()',
    "soft = functools.partial(torch.softmax, dim=0)\nbound = lambda o, t: F.nll_loss(soft(o), t)",
]


HANDED_ON = """\
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.randint(0, 3, (13,))), batch_size=5)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)


def named(**numbers):
    return numbers


class Report:
    def __init__(self, mean):
        self.mean = mean


for a, b in feed:
    scores = brain(a)
    penalty = F.cross_entropy(scores, b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
    report = {}
    for name in ("mean", "again"):
        report[name] = scores.mean()
    READ
    print(f"{told.item():.6f}")
"""
READINGS = [
    "told = SimpleNamespace(**report).mean",
    'told = vars(SimpleNamespace(**report))["mean"]',
    'told = dict(**report)["mean"]',
    'told = named(**report)["mean"]',
    'told = vars(Report(scores.mean()))["mean"]',
    'told = Report(scores.mean()).__dict__["mean"]',
]


def _assert_trains_the_same(trial: Trial, folder: Path, text: str) -> None:
    script, converted = folder / "train.py", folder / "train_ddp.py"
    script.write_text(text)
    converted.write_bytes(convert_file(script, Options()).data)
    assert_trains_the_same(trial, script, converted)


@pytest.mark.parametrize(("given", "loss", "scores"), GIVEN_BACK)
def test_a_dictionary_of_a_batch_gives_a_model_its_arguments(
    tmp_path: Path, trial: Trial, given: str, loss: str, scores: str
) -> None:
    text = OF_NAMED_PARTS.replace("GIVEN", given).replace("TAKEN", loss)
    _assert_trains_the_same(trial, tmp_path, text.replace("SCORES", scores))


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_function_keeps_the_arguments_that_it_is_given_beforehand(
    tmp_path: Path, trial: Trial, binding: str
) -> None:
    _assert_trains_the_same(trial, tmp_path, BOUND.replace("BINDING", binding))


@pytest.mark.parametrize("read", READINGS)
def test_what_is_handed_on_by_name_stays_that_of_the_batch(
    tmp_path: Path, trial: Trial, read: str
) -> None:
    _assert_trains_the_same(trial, tmp_path, HANDED_ON.replace("READ", read))
