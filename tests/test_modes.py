"""Whether a model is in training mode, where the script calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest

from ddpify.source import source_from_bytes
from ddpify.understanding import training_modes as modes_of_models
from ddpify.understanding.facts import Site
from ddpify.understanding.interpreter import Interpreter
from ddpify.understanding.project import Project
from ddpify.understanding.values import Instance, value
from tests.convert.examples import HEAD, added

NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
    def forward(self, x):
        return [self.layer(x), x] if self.training else self.layer(x)
net = Net()
x = torch.ones(2, 3)
"""
LOOP = """
for epoch in range(3):
    {first}
    for i in range(2):
        net(x)
        {second}
    net.eval()
    net(x)
"""
FUNCTIONS = """
def train():
    net.train()
    for i in range(2):
        net(x)
        {inside}
def test():
    net.eval()
    net(x)
def step():
    net(x)
for epoch in range(3):
    train()
    {between}
    step()
    test()
"""
BRANCHES = """
for phase in ("train", "val"):
    if phase == "train":
        net.train()
    else:
        net.eval()
    net(x)
net.train({mode})
net(x)
"""
INNER = """
whole = torch.nn.Sequential(net, torch.nn.Linear(3, 3))
for epoch in range(3):
    whole.train()
    net(x)
    whole.eval()
    net(x)
"""

SEVERAL = """
net = Net() if {first} else torch.nn.Sequential(net)
for epoch in range(3):
    net.train()
    for i in range(2):
        net(x)
        {second}
    net.eval()
    net(x)
"""


def modes(text: str) -> list[bool | None]:
    """The mode of each call ``net(x)``, in source order."""
    run = Interpreter(Project(source_from_bytes((NET + text).encode(), "train.py")))
    run.run()
    entry = run.project.entry
    calls = [call for call in entry.structure.all(cst.Call) if _shown(call) == "net(x)"]
    return [_mode(run, Site(call, entry)) for call in calls]


def _mode(run: Interpreter, site: Site) -> bool | None:
    assert isinstance(site.node, cst.Call)
    net, *_ = run.facts.values[site.node.func].of(Instance)
    return run.modes.at(run.facts, site, net)


def _shown(call: cst.Call) -> str:
    return cst.Module([]).code_for_node(call)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("net(x)\n", [True]),
        ("net.eval()\nnet(x)\nnet.train()\nnet(x)\n", [False, True]),
        (LOOP.format(first="net.train()", second="pass"), [True, False]),
        (LOOP.format(first="pass", second="pass"), [None, False]),
        (LOOP.format(first="net.train()", second="net.eval()"), [None, False]),
        (LOOP.format(first="net.train()", second="if x: net.eval()"), [None, False]),
        (FUNCTIONS.format(inside="pass", between="pass"), [True, False, None]),
        (FUNCTIONS.format(inside="test()", between="pass"), [None, False, None]),
        (
            FUNCTIONS.format(inside="test(); net.train()", between="net.train()"),
            [True, False, True],
        ),
        (FUNCTIONS.format(inside="if x: test(); net.train()", between="pass"), [True, False, None]),
        (FUNCTIONS.format(inside="pass", between="test()"), [True, False, None]),
        (BRANCHES.format(mode="False"), [None, False]),
        (BRANCHES.format(mode="unknown"), [None, None]),
        (INNER, [True, False]),
        (SEVERAL.format(first="unknown", second="pass"), [True, False]),
        (SEVERAL.format(first="unknown", second="net = Net()"), [None, False]),
    ],
)
def test_the_last_switch_before_a_call_holds(text: str, expected: list[bool | None]) -> None:
    assert modes(text) == expected


def test_calls_are_gone_up_once_however_many_ways_lead_there() -> None:
    chain = "def f0():\n    net(x)\n"
    for depth in range(1, 30):
        chain += f"def f{depth}():\n    f{depth - 1}()\n    f{depth - 1}()\n"
    assert modes(f"{chain}net.eval()\nf29()\n") == [False]
    assert modes(f"{chain}net.eval()\nf29()\nnet.train()\nf29()\n") == [None]


OUTPUTS = """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 3), nn.Linear(3, 3)
    def forward(self, x):
        sides = [self.first(x)]
        sides.append(self.second(sides[0]))
        if self.training:
            return sides
        return torch.sigmoid(sides[-1])

def total(given, wanted):
    parts = [F.cross_entropy(given[i], wanted) for i in range(len(given))]
    return sum(parts)

brain = Deep()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for epoch in range(3):
    brain.train()
    for a, b in feed:
        rule.zero_grad()
        penalty = total(brain(a), b)
        penalty.backward()
        rule.step()
    brain.eval()
"""


def test_outputs_of_the_training_are_no_rows_of_those_of_the_evaluation(tmp_path: Path) -> None:
    assert "penalty = dd.mean(total(brain(a), b))" in added(tmp_path, HEAD + OUTPUTS)


OWN_LOSS = """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 3)
    def forward(self, x):
        sides = [self.first(x), self.second(self.first(x))]
        return sides if self.training else sides[-1]
    def loss(self, given, wanted):
        if self.training:
            parts = 0
            for one in given:
                parts += F.cross_entropy(one, wanted)
            return parts / len(given)
        return F.cross_entropy(given, wanted)

brain = Deep()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
def fit():
    brain.train()
    for a, b in feed:
        rule.zero_grad()
        penalty = brain.loss(brain(a), b)
        penalty.backward()
        rule.step()
def test():
    brain.eval()
    for a, b in check:
        print(brain.loss(brain(a), b))
for epoch in range(3):
    fit()
    test()
"""


def test_a_method_is_in_the_mode_of_its_call(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + OWN_LOSS)
    assert "penalty = dd.mean(brain.loss(brain(a), b))" in lines
    assert "print(dd.mean(brain.loss(brain(a), b)))" in lines


def test_a_layer_that_a_model_held_before_is_not_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Interpreter(Project(source_from_bytes(NET.encode(), "train.py")))
    run.run()
    net = next(one for one in run.facts.models if one.kind == "")
    layer = next(one for one in net.parts() if one.kind == "torch.nn.Linear")
    layers = modes_of_models.Layers()
    assert layers.holds(net, layer)
    net.put("another", value(net))

    def parts(one: Instance) -> Iterator[Instance]:
        raise AssertionError(one)

    monkeypatch.setattr(Instance, "parts", parts)
    assert layers.holds(net, layer)
