"""Tensors that grow with each batch hold the rows of all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, STEP, added, convert_text

LOOP = """\
{begin}
for a, b in {loader}:
    out = brain(a).detach()
    {grow}
print(seen.std(0), seen.numpy())
"""
GROWN = {
    "from the first batch on": (
        "seen = None",
        "if seen is None:\n        seen = out\n    else:\n        seen = torch.cat((seen, out))",
        ["seen = dd.gather(out)", "seen = torch.cat((seen, dd.gather(out)))"],
    ),
    "in one line": (
        "seen = None",
        "seen = out if seen is None else torch.cat([seen, out], dim=0)",
        ["seen = dd.gather(out) if seen is None else torch.cat([seen, dd.gather(out)], dim=0)"],
    ),
    "with another": (
        "seen = z = None",
        "if seen is None:\n        seen, z = out, b\n    else:\n"
        "        seen, z = torch.cat((seen, out)), torch.cat((z, b))",
        [
            "seen, z = dd.gather(out), dd.gather(b)",
            "seen, z = torch.cat((seen, dd.gather(out))), torch.cat((z, dd.gather(b)))",
        ],
    ),
    "from nothing": (
        "seen = torch.zeros(0, 3)",
        "seen = torch.cat([seen, out, 2 * out])",
        ["seen = torch.cat([seen, dd.gather(out), dd.gather(2 * out)])"],
    ),
}


@pytest.mark.parametrize("loader", ["feed", "check"])
@pytest.mark.parametrize("name", GROWN)
def test_what_a_tensor_grows_by_is_gathered(tmp_path: Path, name: str, loader: str) -> None:
    begin, grow, expected = GROWN[name]
    lines = added(tmp_path, HEAD + STEP + LOOP.format(begin=begin, grow=grow, loader=loader))
    assert [line for line in lines if "seen" in line] == expected


KEEPER = """\
class Keeper:
    def __init__(self):
        self.seen = None

    def take(self, out):
        {take}


keeper = Keeper()
for a, b in feed:
    keeper.take(brain(a).detach())
print(keeper.seen.std(0))
"""
TAKEN = {
    "in one of two branches": (
        "if self.seen is None:\n            self.seen = out\n        else:\n"
        "            self.seen = torch.cat((self.seen, out))"
    ),
    "after an early end": (
        "if self.seen is None:\n            self.seen = out\n            return\n"
        "        self.seen = torch.cat((self.seen, out))"
    ),
    "in one line": "self.seen = out if self.seen is None else torch.cat((self.seen, out))",
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_an_object_keeps_of_all_batches_is_gathered(tmp_path: Path, name: str) -> None:
    lines = added(tmp_path, HEAD + STEP + KEEPER.format(take=TAKEN[name]))
    assert sum(line.count("dd.gather(out)") for line in lines) == 2
    assert not any("dd.mean(keeper" in line for line in lines)


def test_rows_of_two_batches_are_not_told_apart_in_a_function(tmp_path: Path) -> None:
    text = (
        HEAD + STEP + LOOP.format(begin="seen = None", grow="seen = add(seen, out)", loader="feed")
    )
    adding = "def add(old, new):\n    return new if old is None else torch.cat([old, new])\n"
    with pytest.raises(DdpifyError, match="has given the next"):
        convert_text(tmp_path, adding + text)


def test_views_that_are_joined_within_a_batch_stay(tmp_path: Path) -> None:
    grow = "seen = a\n    for one in (2 * a, 3 * a):\n        seen = torch.cat((seen, one))"
    grow += "\n    print(brain(seen).pow(2).mean().item())"
    text = HEAD + STEP + LOOP.format(begin="seen = features", grow=grow, loader="check")
    lines = added(tmp_path, text.replace("print(seen.std(0), seen.numpy())\n", ""))
    assert not any("torch.cat" in line for line in lines)


JOINED = {
    "beside the rows": "seen = out\n    seen = torch.cat([seen, one], dim=1)",
    "in one of two ways": (
        "if a.dim() == 2:\n        both = out\n    else:\n        both = -out\n"
        "    both = torch.cat([both, one])"
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_what_is_joined_for_one_batch_stays(tmp_path: Path, name: str) -> None:
    grow = f"one = 2 * out\n    {JOINED[name]}\n    print(both.mean().item())"
    text = HEAD + STEP + LOOP.format(begin="both = out = seen = 0", grow=grow, loader="feed")
    text = text.replace("print(seen.std(0), seen.numpy())\n", "")
    text = text if "ways" in name else text.replace("both.mean", "seen.mean")
    text = text.replace("both = out = seen = 0\n", "") if "ways" in name else text
    assert not any("gather" in line for line in added(tmp_path, text))


def test_what_is_repeated_for_each_row_is_no_batch(tmp_path: Path) -> None:
    text = """\
    import torch
    import torch.nn as nn

    x, y, scale = torch.randn(24, 4), torch.randn(24, 3), torch.rand(3)
    brain = nn.Linear(4, 3)
    rule = torch.optim.SGD(brain.parameters(), lr=0.1)
    for first in range(0, 24, 6):
        rows, goal = x[first : first + 6], y[first : first + 6]
        out = brain(rows)
        wide = scale.expand(out.size(0), 3)
        rule.zero_grad()
        nn.functional.mse_loss(out * wide, goal * wide).backward()
        rule.step()
    """
    lines = added(tmp_path, text)
    assert not any("scale" in line for line in lines)
    assert any(
        "dd.shard_batch(x[first : first + 6], y[first : first + 6])" in line for line in lines
    )
