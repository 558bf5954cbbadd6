"""Where the process group starts: in the main part, where nothing before it goes by the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import convert_text

SCRIPT = """\
import argparse
import logging
import os
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

{line}


class Names(list):
    def add(self, name):
        print(name)


def main():
    feed = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=6)
    brain = nn.Linear(4, 3)
    rule = torch.optim.SGD(brain.parameters(), lr=0.1)
    for (a,) in feed:
        rule.zero_grad()
        brain(a).pow(2).mean().backward()
        rule.step()


if __name__ == "__main__":
    main()
"""
QUIET = [
    "",
    "logger = logging.getLogger(__name__)",
    "names = sorted(n for n in dir(nn) if n.islower() and callable(getattr(nn, n)))",
    "losses = ['one']\nlosses.append('other')",
    "here = os.path.dirname(os.path.abspath(__file__))",
    "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float)",
]
ACTING = [
    "torch.manual_seed(0)",
    "print('start')",
    "logger = logging.getLogger(__name__)\nlogging.basicConfig(filename='log.txt')",
    "options = argparse.ArgumentParser().parse_args()",
    "os.makedirs('out', exist_ok=True)",
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
]
INSIDE = 'if __name__ == "__main__":\n    dd.init()\n    main()\n'


@pytest.mark.parametrize("line", QUIET)
def test_the_group_starts_in_the_main_part(tmp_path: Path, line: str) -> None:
    assert INSIDE in convert_text(tmp_path, SCRIPT.format(line=line)).data.decode()


@pytest.mark.parametrize("line", ACTING)
def test_the_group_starts_before_what_acts(tmp_path: Path, line: str) -> None:
    made = convert_text(tmp_path, SCRIPT.format(line=line)).data.decode()
    assert INSIDE not in made
    assert made.index("dd.init()") < made.index(line.splitlines()[-1][:12])


def test_what_the_project_defines_may_act(tmp_path: Path) -> None:
    text = SCRIPT.format(line="").replace(
        "def main", "names = Names()\nnames.add('x')\n\n\ndef main"
    )
    assert "dd.init()\nnames = Names()" in convert_text(tmp_path, text).data.decode().replace(
        "\n\n", "\n"
    )


def test_a_file_that_starts_nothing_is_noted(tmp_path: Path) -> None:
    guard = 'if __name__ == "__main__":\n    main()\n'
    text = SCRIPT.format(line="")
    assert guard in text
    for script, noted in ((text, False), (text.replace(guard, ""), True)):
        notes = [str(note) for note in convert_text(tmp_path, script).notes if note.attention]
        assert any("starts nothing by itself" in note for note in notes) is noted
