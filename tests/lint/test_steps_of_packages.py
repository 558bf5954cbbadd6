"""Steps of optimizers and schedules that another package makes."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

LOOP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        made.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        {}
    {}
"""
OPTIMIZERS = {
    "of parameters": "from lion import Lion\nmade = Lion(model.parameters(), lr=0.1)\n",
    "of a model": "from timm.optim import create_optimizer_v2 as make\nmade = make(model)\n",
    "of a configuration": (
        "from hydra.utils import instantiate\n"
        'made = instantiate({"_target_": "x.Y"}, params=model.parameters())\n'
    ),
    "around another": "from lars import LARC\nmade = optimizer\nmade = LARC(optimizer=made)\n",
    "beside its model": (
        "from apex import amp\nmade = optimizer\nnet, made = amp.initialize(net, made)\n"
    ),
    "of groups": (
        'from lion import Lion\nmade = Lion([{"params": model.parameters(), "lr": 0.1}])\n'
    ),
}
SCHEDULES = {
    "of an optimizer": "from warmup import Warmup\nplan = Warmup(optimizer, 10)\n",
    "of an unseen optimizer": (
        "from lion import Lion\nfrom warmup import Warmup\n"
        "made = Lion(model.parameters())\nplan = Warmup(made, 10)\n"
    ),
    "of a configuration": (
        "from hydra.utils import instantiate\n"
        'plan = instantiate({"_target_": "x.Y"}, optimizer=optimizer)\n'
    ),
}


def _codes(lint_text: Lint, setup: str, step: str, after: str = "pass") -> set[str]:
    text = SETUPS["distributed"] + "made = optimizer\n" + setup + LOOP.format(step, after)
    return {one.code for one in lint_text(text)}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_of_a_package(name: str, lint_text: Lint) -> None:
    setup = OPTIMIZERS[name]
    assert "DDP407" in _codes(lint_text, setup, "if rank == 0: made.step()")
    assert "DDP407" not in _codes(lint_text, setup, "made.step()")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_function_gets_it(name: str, lint_text: Lint) -> None:
    setup = OPTIMIZERS[name] + "def advance(given):\n    given.step()\n"
    some = setup.replace("    given", "    if rank == 0: given")
    assert "DDP407" in _codes(lint_text, some, "advance(made)")
    assert "DDP407" not in _codes(lint_text, setup, "advance(made)")


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_of_a_package(name: str, lint_text: Lint) -> None:
    setup = SCHEDULES[name]
    assert "DDP407" in _codes(lint_text, setup, "made.step()", "if rank == 0: plan.step()")
    assert "DDP407" not in _codes(lint_text, setup, "made.step()", "plan.step()")


@pytest.mark.parametrize(
    "setup",
    [
        "from ema import EMA\nkept = EMA(model.parameters())\n",
        "from tables import Table\nkept = Table(epochs)\n",
    ],
)
def test_what_trains_nothing(setup: str, lint_text: Lint) -> None:
    given = "model.parameters()" if "EMA" in setup else ""
    after = f"if rank == 0: kept.step({given})"
    assert "DDP407" not in _codes(lint_text, setup, "made.step()", after)
