"""Lines of several statements, and those behind a colon, between which something is added."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import convert_text

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn


def draw():
    return torch.randn(7, 4), torch.randint(3, (7,))


brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
PARTS = (
    "x, y = draw()",
    "loss = F.cross_entropy(brain(x), y)",
    "rule.zero_grad()",
    "loss.backward()",
    "rule.step()",
)
EXPECTED = """\
for step in range(4):
    x, y = draw()
    x, y = dd.shard_batch(x, y)
    loss = dd.mean(F.cross_entropy(brain(x), y), lazy=True)
    rule.zero_grad()
    loss.backward()
    rule.step()  # done
"""


@pytest.mark.parametrize("between", [" ", "\n    "])
def test_a_batch_is_split_before_the_rest_of_its_line(tmp_path: Path, between: str) -> None:
    text = f"{HEAD}for step in range(4):{between}{'; '.join(PARTS)}  # done\n"
    assert convert_text(tmp_path, text).data.decode().endswith(EXPECTED)


def test_a_loop_on_one_line_splits_its_batch_first(tmp_path: Path) -> None:
    text = (
        f"{HEAD}def all():\n    for _ in range(4):\n        yield draw()\n\n\n"
        f"for x, y in all(): {'; '.join(PARTS[1:])}\n"
    )
    after = convert_text(tmp_path, text).data.decode()
    assert "for x, y in all():\n    x, y = dd.shard_batch(x, y)\n    loss = dd.mean(" in after


def test_what_is_written_behind_a_colon_is_for_rank_zero(tmp_path: Path) -> None:
    text = f"{HEAD}for step in range(4):\n    {PARTS[0]}\n"
    text += "".join(f"    {part}\n" for part in PARTS[1:])
    text = f"import os\n{text}if os.path.exists('last.pt'): os.remove('last.pt')\n"
    after = "    if dd.is_main():\n        os.remove('last.pt')\n"
    assert convert_text(tmp_path, text).data.decode().endswith(after)
