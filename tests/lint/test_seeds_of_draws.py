"""A seed that all ranks have matters where the training draws, and not where it never does."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
torch.manual_seed(0)

def thin(x, share={default}):
    if {condition}:
        x = x[:, torch.randperm(10)]
    return x

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(thin(x.to(device){given})), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("default", "given"),
    [("0.5", ""), ("0.", ", 0.5"), ("0.", ", share=0.5"), ("0.", ", share=epoch / 10")],
    ids=["by default", "by position", "by keyword", "in later rounds"],
)
def test_a_share_that_is_drawn(lint_text: Lint, default: str, given: str) -> None:
    text = SCRIPT.format(default=default, given=given, condition="share > 0")
    found = lint_text(SETUPS["distributed"] + text, select=("DDP601",))
    assert ["randperm" in one.message for one in found] == [True]


@pytest.mark.parametrize("condition", ["share > 0", "share", "share != 0", "0 < share"])
def test_a_share_that_is_none_in_all_calls(lint_text: Lint, condition: str) -> None:
    text = SCRIPT.format(default="0.", given="", condition=condition)
    assert not lint_text(SETUPS["distributed"] + text, select=("DDP601",))


OBJECT = """
torch.manual_seed(0)

class Thin:
    def __call__(self, x, share=0.):
        if share > 0:
            x = x[:, torch.randperm(10)]
        return x

thin = Thin()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(thin(x.to(device){given})), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("given", "count"), [(", 0.5", 1), (", share=0.5", 1), ("", 0)])
def test_a_share_that_an_object_is_called_with(lint_text: Lint, given: str, count: int) -> None:
    text = SETUPS["distributed"] + OBJECT.format(given=given)
    assert len(lint_text(text, select=("DDP601",))) == count


RESET = """
torch.manual_seed(0)

def thin(x, share=0.):
    if share > 0:
        x = x[:, torch.randperm(10)]
    return x

def views(x, share={default}):
    parts = []
    for part in x.chunk(2):
        parts.append(thin(part, share))
        share = {later}
    return torch.cat(parts)

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(views(x.to(device))), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("default", "later", "count"), [("0.", "0.", 0), ("0.", "0.5", 1), ("0.5", "0.", 1)]
)
def test_a_share_that_is_set_again(lint_text: Lint, default: str, later: str, count: int) -> None:
    text = SETUPS["distributed"] + RESET.format(default=default, later=later)
    assert len(lint_text(text, select=("DDP601",))) == count
