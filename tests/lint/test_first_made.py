"""Past a folder that one rank alone can make, no other rank comes."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

FOLDER = """
class Run:
    def __init__(self, folder):
        self.folder = folder
        if not os.path.exists(self.folder):
            os.makedirs(self.folder{})
            self.note()

    def note(self):
        with open(os.path.join(self.folder, "state.txt"), "w") as file:
            file.write("begun")

run = Run("out")
"""
STEPS = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


def _codes(lint_text: Lint, text: str) -> list[str]:
    found = lint_text(SETUPS["distributed"] + text + STEPS, select=("DDP501", "DDP506"))
    return [one.code for one in found]


def test_a_write_after_it(lint_text: Lint) -> None:
    assert _codes(lint_text, FOLDER.format("")) == ["DDP506"]


@pytest.mark.parametrize("old", ["os.makedirs(self.folder)", "            self.note()"])
def test_a_write_that_others_come_to(lint_text: Lint, old: str) -> None:
    new = "os.makedirs(self.folder, exist_ok=True)" if "make" in old else "        self.note()"
    text = FOLDER.format("").replace(old, new)
    assert "DDP501" in _codes(lint_text, text)


FOLDERS = """
if not os.path.exists("out"):
    os.makedirs({})
    os.makedirs("out/models")
"""


def _line(lint_text: Lint, first: str) -> int:
    """Which of the two folders is found, from 0; there is one."""
    text = SETUPS["distributed"] + FOLDERS.format(first) + STEPS
    (found,) = lint_text(text, select=("DDP506",))
    return found.span.line - len(SETUPS["distributed"].splitlines()) - 3


def test_a_folder_in_it(lint_text: Lint) -> None:
    assert _line(lint_text, '"out"') == 0


@pytest.mark.parametrize("first", ['"out", exist_ok=True', 'f"out{rank}"'])
def test_a_folder_in_one_that_all_may_make(lint_text: Lint, first: str) -> None:
    assert _line(lint_text, first) == 1
