"""Networks that are switched off and on again in a step whose caller is not seen."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

CLASS = """
from models_of_others import MODELS, make


@MODELS.register()
class Pair:
    def __init__(self):
        self.maker = DDP(make("maker").to(device), device_ids=[local_rank])
        self.judge = DDP(make("judge").to(device), device_ids=[local_rank])
        self.first = torch.optim.Adam(self.maker.parameters())
        self.second = torch.optim.Adam(self.judge.parameters())

{}

chosen = MODELS.get("Pair")()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        chosen.step(x, y)
"""
OFF = "for p in self.judge.parameters():\n    p.requires_grad = False\n"
ON = "for p in self.judge.parameters():\n    p.requires_grad = True\n"
MAKER = "criterion(self.judge(self.maker(x)), y).backward()\nself.first.step()\n"
JUDGE = "criterion(self.judge(x), y).backward()\nself.second.step()\n"


def method(head: str, *parts: str) -> str:
    lines = [line for part in parts for line in part.splitlines()]
    return f"    def {head}:\n" + "".join(f"        {line}\n" for line in lines) + "\n"


def under(condition: str, part: str) -> str:
    return f"if {condition}:\n" + "".join(f"    {line}\n" for line in part.splitlines())


STEP = "step(self, x, y)"
SWITCHED = {
    "off, then on": method(STEP, OFF, MAKER, ON, JUDGE),
    "on, then off": method(STEP, ON, JUDGE, OFF, MAKER),
    "under one condition": method(STEP, under("self.both", OFF + MAKER + ON), JUDGE),
    "a method of the parameters": method(
        STEP,
        OFF.replace(".requires_grad = False", ".requires_grad_(False)"),
        MAKER,
        ON.replace(".requires_grad = True", ".requires_grad_(True)"),
        JUDGE,
    ),
    "backward in methods": method("one(self, x, y)", MAKER)
    + method("two(self, x, y)", JUDGE)
    + method(STEP, OFF, "self.one(x, y)", ON, "self.two(x, y)"),
    "steps of subclasses": method(STEP, OFF, MAKER, ON, JUDGE)
    + "@MODELS.register()\nclass Other(Pair):\n"
    + method(STEP, ON, JUDGE, OFF, MAKER),
}
CHANGED = {
    "off alone": method(STEP, OFF, MAKER, JUDGE),
    "in two methods": method("freeze(self)", OFF)
    + method("thaw(self)", ON)
    + method(STEP, MAKER, JUDGE),
    "under two conditions": method(
        STEP, under("self.early", OFF), under("self.late", ON), MAKER, JUDGE
    ),
    "in two branches": method(
        STEP, under("self.early", OFF) + "else:\n    " + ON.replace("\n", "\n    "), JUDGE
    ),
    "around whole epochs": method(
        "fit(self, loader)",
        OFF,
        "for x, y in loader:\n    criterion(self.judge(self.maker(x)), y).backward()\n",
        ON,
        "for x, y in loader:\n    criterion(self.judge(x), y).backward()\n",
    ),
    "around epochs of methods": method(
        "run(self, loader)", "for x, y in loader:\n    criterion(self.judge(x), y).backward()\n"
    )
    + method("fit(self, loader)", OFF, "self.run(loader)", ON, "self.run(loader)"),
    "and off elsewhere": method(STEP, OFF, MAKER, ON, JUDGE) + method("freeze(self)", OFF),
}


@pytest.mark.parametrize("name", [*SWITCHED, *CHANGED])
def test_a_network_that_a_step_switches(name: str, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + CLASS.format({**SWITCHED, **CHANGED}[name])
    assert bool(lint_text(text, select=("DDP306",))) is (name in CHANGED)
