"""A call without an argument that it needs ends a script: what comes after it is not reached."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
class Stopper:
    def __init__(self, name, patience=3, *, verbose):
        self.name, self.patience, self.verbose = name, patience, verbose

def stop_after(name, *more, **named):
    return Stopper(name, *more, **named)

{}
with open("notes.txt", "w") as file:
    file.write("begun")
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


def _is_found(lint_text: Lint, line: str) -> bool:
    return bool(lint_text(SETUPS["distributed"] + SCRIPT.format(line), select=("DDP501",)))


@pytest.mark.parametrize(
    "line",
    [
        "Stopper(patience=3, verbose=True)",
        "Stopper('a', 3)",
        "stopper = Stopper(verbose=True)",
        "stop_after()",
        "def begin():\n    return Stopper(verbose=True)\n\nstopper = begin()",
    ],
)
def test_one_that_is_left_out(lint_text: Lint, line: str) -> None:
    assert not _is_found(lint_text, line)


@pytest.mark.parametrize(
    "line",
    [
        "Stopper('a', verbose=True)",
        "Stopper(name='a', verbose=True)",
        "Stopper(**options)",
        "Stopper(*options, verbose=True)",
        "stop_after('a', verbose=True)",
        "if epochs > 10:\n    Stopper(patience=3)",
        "try:\n    Stopper(patience=3)\nexcept TypeError:\n    pass",
        "make = lambda: Stopper(patience=3)",
    ],
)
def test_one_that_is_given_or_may_be(lint_text: Lint, line: str) -> None:
    assert _is_found(lint_text, line)
