"""What stands in a function that nothing names is possible alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ddpify
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SET = 'os.environ["RANK"] = "0"'
PROGRAM = """
class Launcher{bases}:
    def by_hand(self):
        os.environ["RANK"] = "0"

{decorator}
def set_up():
    os.environ["RANK"] = "0"
    {inner}

def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    {called}

{end}
"""
HELPERS = """
def used():
    dist.init_process_group("gloo", rank=int(os.environ["LOCAL_RANK"]))

def unused():
"""
MAIN = 'if __name__ == "__main__":\n    main()'


def _program(**given: str) -> str:
    parts = {"bases": "", "decorator": "", "inner": "pass", "called": "pass", "end": MAIN}
    imports = "import functools\nimport os\nimport threading\nimport torch\n"
    imports += "import torch.distributed as dist\n"
    return imports + PROGRAM.format(**{**parts, **given})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, 0),
        ({"called": "set_up()"}, 1),
        ({"called": "Launcher().by_hand()"}, 1),
        ({"called": "tasks = [set_up]"}, 1),
        ({"called": "getattr(Launcher(), 'by_hand')()"}, 1),
        ({"called": "getattr(Launcher(), os.environ['HOW'])()"}, 2),
        ({"decorator": "@functools.cache"}, 1),
        ({"bases": "(threading.Thread)"}, 1),
        ({"end": "main()"}, 2),
    ],
)
def test_a_function_that_nothing_names(
    given: dict[str, str], found: int, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    text = _program(**given)
    assert len(lint_text(text, select=("DDP701",))) == found
    assert len(lint_text(text, select=("DDP701",), strict=True)) == 2


@pytest.mark.parametrize("name", ["other.py", "tools/other.py", "tools/other.ipynb", "README.md"])
def test_another_file_names_it(name: str, lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / name).write_text("from train import set_up\nset_up()\n")
    assert len(lint_text(_program(), select=("DDP701",))) == 1


@pytest.mark.parametrize(("imports", "found"), [("from helpers import used", 0), ("pass", 1)])
def test_a_function_of_a_file_that_a_program_imports(
    imports: str, found: int, ddpify: Ddpify, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    head = "import os\nimport torch.distributed as dist\n"
    helpers = f"{head}{HELPERS}    {SET}\n"
    (tmp_path / "helpers.py").write_text(helpers)
    (tmp_path / "train.py").write_text(f"{imports}\n{SETUPS['distributed']}")
    said = ddpify("lint", tmp_path / "helpers.py", "--select", "DDP701").stdout
    assert said.count("DDP701 ") == found
