"""Models that a setting chooses, and those whose layers are replaced by others that hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

START = HEAD[: HEAD.index("brain =")]
PLAIN = "    penalty = F.cross_entropy(brain(a), b)\n"
CHOSEN = """\
class One(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


class Two(One):
    def forward(self, x):
        out = self.layer(x)
        return {several}


kind = input()
brain = {{"one": One, "two": Two}}[kind]()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("several", "line"),
    [
        ("out, out.exp()", "    out = brain(a)[0] if kind == 'two' else brain(a)\n"),
        ("[out, out.exp()]", "    out = brain(a)\n    out = out[0] if kind == 'two' else out\n"),
        (
            "[out.exp() for _ in range(2)]",
            "    outs = brain(a)\n    if kind == 'two':\n"
            "        out = sum(outs[i] for i in range(2))\n    else:\n        out = outs\n",
        ),
    ],
)
def test_an_item_is_taken_of_what_gives_several(tmp_path: Path, several: str, line: str) -> None:
    step = STEP.replace(PLAIN, f"{line}    penalty = F.cross_entropy(out, b)\n")
    lines = added(tmp_path, START + CHOSEN.format(several=several) + step)
    assert "penalty = dd.mean(F.cross_entropy(out, b))" in lines
    assert not any("gather" in one for one in lines)


ADAPTED = """\
class Adapted(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.more = nn.Linear(4, 3, bias=False)

    def forward(self, x):
        return self.inner(x) + self.more(x)


def adapt(model):
    for name, part in model.named_children():
        if isinstance(part, nn.Linear):
            setattr(model, name, Adapted(part))
        else:
            adapt(part)


class Brain(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x)


brain = Brain()
adapt(brain)
brain.to("cpu")
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


def test_what_is_put_into_a_model_is_no_model_around_it(tmp_path: Path) -> None:
    lines = added(tmp_path, START + ADAPTED + STEP)
    assert any(line.startswith("brain = dd.wrap(brain") for line in lines)


MADE_INSIDE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Inner(nn.Module):
    def forward(self, x):
        return x.relu()


class Outer(nn.Module):
    def forward(self, x):
        x = Inner()(x)
        return nn.Linear(8, 8)(x) + x


class Brain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.parts = nn.ModuleList([Outer() for _ in range(2)])

    def forward(self, x):
        x = self.first(x)
        for part in self.parts:
            x = part(x)
        return self.last(x)


brain = Brain()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
rows = [[[1.0, 2.0, 3.0, 4.0], 1] for _ in range(8)]
a, b = map(torch.tensor, zip(*rows))
for step in range(9):
    rule.zero_grad()
    F.cross_entropy(brain(a), b).backward()
    rule.step()
"""


def test_layers_that_are_made_in_a_forward_are_no_entries_of_batches(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="a layer is made in a forward"):
        convert_text(tmp_path, MADE_INSIDE)


@pytest.mark.parametrize(
    "made", ["torch.full((len(some), 2), 1.0)", "torch.FloatTensor(len(some), 2)"]
)
def test_tensors_with_a_row_for_each_that_a_mask_leaves(tmp_path: Path, made: str) -> None:
    body = f"    some = b[b > 0]\n    more = {made}\n    print(more.sum().item())\n"
    assert "print(dd.sum(more.sum()).item())" in added(tmp_path, HEAD + STEP + body)


TRAINED_INSIDE = """\
def build(name):
    if name == "wide":
        brain = nn.Linear(4, 3)
    else:
        brain = nn.Linear(4, 3, bias=False)
    return brain


def train(brain):
    for a, b in feed:
        rule.zero_grad()
        F.cross_entropy(brain(a), b).backward()
        rule.step()


def run(name):
    global rule
    brain = MADE
    rule = torch.optim.SGD(brain.parameters(), lr=0.1)
    train(brain)
    return brain


brain = run(input())
"""


@pytest.mark.parametrize("made", ["build(name)\n    brain = nn.DataParallel(brain)", "build(name)"])
def test_a_function_that_trains_what_it_returns_wraps_it(tmp_path: Path, made: str) -> None:
    text = HEAD.replace("brain = nn.Linear(4, 3)\n", "").replace(
        "rule = torch.optim.SGD(brain.parameters(), lr=0.1)\n", ""
    ) + TRAINED_INSIDE.replace("MADE", made)
    result = convert_text(tmp_path, text).data.decode()
    before, after = result.split("train(brain)\n    return")
    assert "brain = dd.wrap(" in before
    assert "dd.wrap(" not in after
