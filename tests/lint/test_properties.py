"""Models that an object gives by properties and methods, and wraps by a method of its own."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

RULES = ("DDP302", "DDP303")
TEXT = """
from functools import cached_property
from typing import cast

class Trainer:
    def __init__(self):
        self.model = self.wrap(Net().to(device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        pass

    def wrap(self, net):
        if not dist.is_initialized():
            return net
        return DDP(net, device_ids=[local_rank])

    @property
    def bare(self):
        return self.model.module

    @cached_property
    def core(self) -> nn.Module:
        if dist.is_initialized():
            return cast(nn.Module, self.model.module)
        return self.model

    @property
    def whole(self):
        return self.model

    def get(self):
        return self.model.module

    def fit(self):
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                self.optimizer.zero_grad()
                criterion(self.model(x), y).backward()
                self.optimizer.step()
        with torch.no_grad():
            print(self.core(torch.zeros(1, 10, device=device)).sum().item())

Trainer().fit()
"""


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ("self.bare", True),
        ("self.core", True),
        ("self.get()", True),
        ("cast(nn.Module, self.model.module)", True),
        ("self.whole", False),
        ("cast(nn.Module, self.model)", False),
    ],
)
def test_a_forward_past_the_wrapper(called: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TEXT.replace("criterion(self.model(", f"criterion({called}(")
    assert [one.code for one in lint_text(text, select=RULES)] == ["DDP303"] * found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("self.model = self.model.half()", True),
        ("self.model.to(torch.bfloat16)", True),
        ("self.model.to(device)", False),
    ],
)
def test_a_cast_after_a_method_has_wrapped(line: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TEXT.replace("        pass\n", f"        {line}\n")
    assert [one.code for one in lint_text(text, select=RULES)] == ["DDP302"] * found


def test_a_cast_before_a_method_wraps(lint_text: Lint) -> None:
    wrapped = "self.wrap(Net().to(device))"
    text = SETUPS["distributed"] + TEXT.replace(wrapped, "self.wrap(Net().half().to(device))")
    assert lint_text(text, select=RULES) == []
