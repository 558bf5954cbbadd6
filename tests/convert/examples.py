"""Small scripts to convert, and the lines that a conversion adds and takes away."""

from __future__ import annotations

from difflib import ndiff
from pathlib import Path
from textwrap import dedent

from ddpify.convert import Conversion, Options, convert_file

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

features, labels = torch.randn(20, 4), torch.randint(0, 3, (20,))
feed = DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True)
check = DataLoader(TensorDataset(features, labels), batch_size=6)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
STEP = """\
for a, b in feed:
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
"""


def convert_text(folder: Path, text: str, **options: object) -> Conversion:
    """Convert a script given as text."""
    script = folder / "script.py"
    script.write_text(dedent(text), encoding="utf-8")
    return convert_file(script, Options(**options))  # type: ignore[arg-type]


def changed_lines(conversion: Conversion) -> tuple[list[str], list[str]]:
    """The lines taken away and the lines added, without indentation."""
    before = conversion.source.text.splitlines()
    after = conversion.data.decode(conversion.source.encoding).splitlines()
    lines = list(ndiff(before, after))
    return (
        [line[2:].strip() for line in lines if line.startswith("- ")],
        [line[2:].strip() for line in lines if line.startswith("+ ")],
    )


def added(folder: Path, text: str, *, lazy: bool = False, **options: object) -> list[str]:
    """The lines that converting a script adds.

    lazy: with what says that a loss is exchanged where it is read, which most of these scripts
    do not do.
    """
    lines = changed_lines(convert_text(folder, text, **options))[1]
    return lines if lazy else [line.replace(", lazy=True", "") for line in lines]
