"""``getattr(x, "module", x)`` takes a model out of its wrapper, as ``x.module`` does."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

STEP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        criterion({}(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
HELPER = """
def bare(model):
    return getattr(model, "module", model)
"""
HOLDER = """
class Holder:
    def __init__(self, model):
        self.model = model

    @property
    def bare(self):
        return getattr(self.model, "module", self.model)

holder = Holder(model)
"""
TAKEN = {
    "in place": ("", 'getattr(model, "module", model)'),
    "by a name": ('inner = getattr(model, "module", model)\n', "inner"),
    "by a helper": (HELPER, "bare(model)"),
    "by a property": (HOLDER, "holder.bare"),
}
SAVE = "    if rank == 0:\n        torch.save({}.state_dict(), path)\n"


@pytest.mark.parametrize("way", TAKEN)
def test_a_forward_past_the_wrapper(way: str, lint_text: Lint) -> None:
    before, taken = TAKEN[way]
    text = SETUPS["distributed"] + before
    past = [one.code for one in lint_text(text + STEP.replace("{}", taken))]
    assert "DDP303" in past
    assert "DDP303" not in [one.code for one in lint_text(text + STEP.replace("{}", "model"))]


@pytest.mark.parametrize("way", TAKEN)
def test_its_state_has_no_prefix(way: str, lint_text: Lint) -> None:
    before, taken = TAKEN[way]
    text = SETUPS["distributed"] + before + STEP.replace("{}", "model")
    assert "DDP503" in [one.code for one in lint_text(text + SAVE.format("model"))]
    assert "DDP503" not in [one.code for one in lint_text(text + SAVE.format(taken))]


def test_another_attribute_takes_no_model_out(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + STEP.replace("{}", 'getattr(model, "forward", model)')
    assert "DDP303" not in [one.code for one in lint_text(text)]
