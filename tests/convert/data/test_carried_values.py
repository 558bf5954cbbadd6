"""What a batch leaves for later rounds, in names, attributes, entries and collections of batches.

Converted and run in float64 at 2 and 3 ranks; the last batch has fewer samples than the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.convert.running import assert_trains_the_same

HEAD = """\
import collections

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.arange(13) % 3), batch_size=5)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
LOOP = """\
for epoch in range(2):
    for a, b in BATCHES:
        scores = brain(a)
        factor = 1.0
        ROUND
        penalty = factor * F.cross_entropy(scores, b)
        rule.zero_grad()
        penalty.backward()
        rule.step()
        print(len(b), f"{penalty.item():.6f}")
"""
# What stands before the loop, and in each round of it.
CARRIED = [
    ("before = None", ["factor += before or 0", "before = scores.mean().detach()"]),
    ("before = 0.0", ["factor += before", "before = 0.5 * before + 0.5 * scores.detach().mean()"]),
    ("pair = (0.0, 1)", ["factor += pair[0]", "pair = (scores.mean().detach(), 1)"]),
    ("x, y = 0.0, 1.0", ["factor += x * y", "x, y = scores.mean().detach(), 0.5"]),
    ("known = {'x': 0.0}", ["factor += known['x']", "known['x'] = scores.mean().detach()"]),
    ("known = [0.0]", ["factor += known[0]", "known[0] = scores.mean().detach()"]),
    ("rule.before = 0.0", ["factor += rule.before", "rule.before = scores.mean().detach()"]),
    (
        "before = 0.0\ndef change(by):\n    global before\n    held, before = before, by\n"
        "    return held",
        ["factor += change(scores.mean().detach())"],
    ),
    (
        "def changing():\n    before = 0.0\n    def change(by):\n        nonlocal before\n"
        "        held = before\n        before = by.mean().detach()\n        return held\n"
        "    return change\nchange = changing()",
        ["factor += change(scores)"],
    ),
    (
        "def change(by, held=[0.0]):\n    before = held[0]\n    held[0] = by.mean().detach()\n"
        "    return before",
        ["factor += change(scores)"],
    ),
]
COLLECTED = [
    "list(feed)",
    "tuple(feed)",
    "[*feed]",
    "reversed(list(feed))",
    "sorted(feed, key=lambda batch: len(batch[1]))",
    "dict(enumerate(feed)).values()",
    "collections.deque(feed, maxlen=2)",
]
AHEAD = [
    "new = [part + 0 for part in batch]",
    "new = {'a': batch[0], 'b': batch[1]}.values()",
    "at = 0 if len(feed) else 1; new = dict(a=batch[at], b=batch[1])['a'], batch[1]",
]


def _assert_trains_the_same(trial: Trial, folder: Path, text: str) -> None:
    script, converted = folder / "train.py", folder / "train_ddp.py"
    script.write_text(text)
    converted.write_bytes(convert_file(script, Options()).data)
    assert_trains_the_same(trial, script, converted)


def _script(batches: str, lines: list[str], before: str = "") -> str:
    loop = LOOP.replace("BATCHES", batches).replace("ROUND", "\n        ".join(lines or ["pass"]))
    return f"{HEAD}{before}\n{loop}"


@pytest.mark.parametrize(("before", "lines"), CARRIED)
def test_what_a_later_round_reads_is_of_the_global_batch(
    tmp_path: Path, trial: Trial, before: str, lines: list[str]
) -> None:
    _assert_trains_the_same(trial, tmp_path, _script("feed", lines, before))


@pytest.mark.parametrize("batches", COLLECTED)
def test_collected_batches_are_split_where_they_are_used(
    tmp_path: Path, trial: Trial, batches: str
) -> None:
    _assert_trains_the_same(trial, tmp_path, _script(batches, []))


@pytest.mark.parametrize("new", AHEAD)
def test_a_batch_that_is_held_back_by_one_round(tmp_path: Path, trial: Trial, new: str) -> None:
    ahead = (
        "def ahead(batches):\n    old = None\n    for batch in batches:\n"
        f"        {new}\n        if old is not None:\n            yield old\n        old = new\n"
        "    yield old\n"
    )
    _assert_trains_the_same(trial, tmp_path, _script("ahead(feed)", [], ahead))
