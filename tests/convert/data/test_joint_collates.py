"""Collate functions that make texts as long as the longest of the batch, converted and run.

The model reads the padding, so that a rank's own longest text would make another loss.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import itertools
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence as together
from torch.utils.data import DataLoader

texts = [(torch.randint(1, 9, (1 + (i * 5) % 7,)), i % 3) for i in range(22)]


def side_by_side(rows):
    return together(rows, batch_first=True)


def filled(rows, longest):
    made = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, (row, _) in enumerate(rows):
        made[i, : len(row)] = row
    return made


class Padding:
    def put(self, rows):
        longest = max(len(row) for row in rows)
        return torch.stack([F.pad(row, (0, longest - len(row))) for row in rows])

    def __call__(self, rows):
        return self.put([row for row, _ in rows])


def collate(rows):
MADE
    return x, torch.tensor([kind for _, kind in rows])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.reader = nn.GRU(4, 6, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.reader(self.words(x))[0][:, -1])


brain = Reader()
feed = DataLoader(texts, batch_size=5, shuffle=True, collate_fn=COLLATE)
rule = torch.optim.SGD(brain.parameters(), lr=0.5)
for x, y in feed:
    rule.zero_grad()
    loss = F.cross_entropy(brain(x), y)
    loss.backward()
    rule.step()
    print(loss.item())
"""
LONGEST_BY_HAND = """\
    longest = 0
    for row, _ in rows:
        if len(row) > longest:
            longest = len(row)
    x = filled(rows, longest)
"""
COUNTED_UP = """\
    longest = 0
    while any(len(row) > longest for row, _ in rows):
        longest += 1
    x = filled(rows, longest)
"""
SORTED = """\
    rows.sort(key=lambda pair: len(pair[0]), reverse=True)
    x = filled(rows, len(rows[0][0]))
"""
WITH_ZEROS = """\
    longest = max(map(len, [row for row, _ in rows]))
    zeros = torch.zeros(longest, dtype=torch.long)
    x = torch.stack([torch.cat([row, zeros[len(row) :]]) for row, _ in rows])
"""
IN_COLUMNS = """\
    columns = itertools.zip_longest(*[row.tolist() for row, _ in rows], fillvalue=0)
    x = torch.tensor(list(zip(*columns)))
"""


@pytest.mark.parametrize(
    "made",
    [
        "    x = side_by_side([row for row, _ in rows])",
        "    x = together([row for row, _ in rows], batch_first=True)",
        "    x = Padding()(rows)",
        "    x = torch.nested.nested_tensor([row for row, _ in rows]).to_padded_tensor(0)",
        "    x = filled(rows, sorted(len(row) for row, _ in rows)[-1])",
        LONGEST_BY_HAND,
        COUNTED_UP,
        SORTED,
        WITH_ZEROS,
        IN_COLUMNS,
    ],
)
def test_padding_is_as_long_as_in_the_whole_batch(trial: Trial, made: str) -> None:
    text = SCRIPT.replace("MADE", made.rstrip()).replace("COLLATE", "collate")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_a_function_around_the_one_that_pads(trial: Trial) -> None:
    made = "    x = side_by_side([row for row, _ in rows])"
    text = SCRIPT.replace("MADE", made).replace("COLLATE", "lambda rows: collate(rows)")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_equally_long_texts_are_put_together_by_each_rank(trial: Trial) -> None:
    """Nothing is taken of all samples: the loading stays divided."""
    made = "    x = torch.stack([F.pad(row[:1], (0, 3)) for row, _ in rows])"
    text = SCRIPT.replace("MADE", made).replace("COLLATE", "collate")
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert "collate_fn=collate))" in converted
