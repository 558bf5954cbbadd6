"""A rate that rank 0 puts into a dictionary of its own, to be shown, changes no training."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
{made}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        if rank == 0:
            {target}["lr"] = {rate}
"""
RATE = "optimizer.param_groups[0]['lr']"
SHOWN = ["shown = {}", "shown = {k: 0.0 for k in 'ab'}", "shown = dict(loss=0.0)", "shown = dict()"]
TRAINED = [
    ("shown = optimizer.param_groups[0]", "shown"),
    ("group, = optimizer.param_groups", "group"),
    ("", "optimizer.param_groups[0]"),
    (
        "group = {'params': net.parameters(), 'lr': 0.1}\n"
        "optimizer = torch.optim.SGD([group], 0.1)",
        "group",
    ),
]


@pytest.mark.parametrize("made", SHOWN)
def test_a_rate_that_is_shown(lint_text: Lint, made: str) -> None:
    text = SCRIPT.format(made=made, target="shown", rate=RATE)
    assert not lint_text(SETUPS["distributed"] + text, select=("DDP407",))


@pytest.mark.parametrize(("made", "target"), TRAINED)
def test_a_rate_that_trains(lint_text: Lint, made: str, target: str) -> None:
    text = SCRIPT.format(made=made, target=target, rate="0.01")
    assert lint_text(SETUPS["distributed"] + text, select=("DDP407",))
