"""The documentation shows what the tool prints; ``python -m tests.test_docs`` renews it."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpify import runtime

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- ddpify (.*) -->\n```\w+\n)((?:(?!```).*\n)*)(```\n)")
VOLATILE = re.compile(
    r"(?<=torch )\S+(?=,)|\d+\.\d(?= s$)|(?<=largest difference )\S+|\d+(?= on rank 0)",
    re.MULTILINE,
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def renewed(text: str) -> str:
    """The page with the output of each command that it names above a block."""
    return BLOCK.sub(
        lambda match: match[1] + kept(match[3], output(match[2].split())) + match[4], text
    )


def kept(shown: str, new: str) -> str:
    """What is shown, as long as no more than times, versions and rounding have changed."""
    return shown if VOLATILE.sub("#", shown) == VOLATILE.sub("#", new) else new


def output(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "ddpify", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_output_is_real(page: Path) -> None:
    text = page.read_text()
    assert renewed(text) == text, "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    missing = [name for name in LINK.findall(page.read_text()) if not (page.parent / name).exists()]
    assert missing == []


def test_every_runtime_function_is_described() -> None:
    text = (ROOT / "docs" / "runtime.md").read_text()
    described = set(re.findall(r"`(\w+)\(", "".join(re.findall(r"^### .*", text, re.M))))
    assert described == set(runtime.__all__)


def test_the_picture_shows_what_the_commands_print(tmp_path: Path) -> None:
    """Those of them that take no training: ``python docs/recording.py`` makes the picture anew."""
    shown = html.unescape(re.sub(r"<[^>]+>", "", (ROOT / "docs/terminal.svg").read_text()))
    shown = shown.replace("\N{NO-BREAK SPACE}", " ")
    shutil.copy(ROOT / "fixtures/global_script/train.py", tmp_path)
    for command in ("lint train.py", "convert train.py -o train_ddp.py"):
        done = subprocess.run(
            [sys.executable, "-m", "ddpify", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = [f"$ ddpify {command}", *done.stdout.splitlines()]
        assert [line for line in lines if line.strip() not in shown] == []
    assert "verdict: equivalent" in shown


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text()))
