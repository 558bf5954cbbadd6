"""Collate functions that add up something of all samples, or put all in one row, beside padding."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import functools
import math
import operator
import statistics

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
texts = [torch.randint(1, 9, (2 + i % 5,)) for i in range(22)]
data = [(t, t.sum() % 3) for t in texts]


def collate(batch):
    tokens, labels = zip(*batch)
    lengths = torch.tensor([len(t) for t in tokens])
    x = pad_sequence(tokens, batch_first=True)
    MADE
    return x, torch.stack(labels), lengths, extra


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 9)

    def forward(self, x):
        return self.out(self.words(x))


loader = DataLoader(data, batch_size=5, shuffle=True, collate_fn=collate)
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    seen = 0
    for x, y, lengths, extra in loader:
        out = model(x)
        loss = LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += int(torch.as_tensor(extra).sum())
    print(epoch, loss.item(), seen)
"""
PER_SAMPLE = "F.cross_entropy(out.mean(1), y, reduction='sum')"
NUMBERS = [
    "sum(len(t) for t in tokens)",
    "sum([t.sum().item() for t in tokens])",
    "sum(map(len, tokens))",
    "sum(t.numel() for t, _ in batch)",
    "sum(v for t in tokens for v in t.tolist())",
    "max(len(t) for t in tokens)",
    "math.fsum(len(t) for t in tokens)",
    "statistics.mean([len(t) for t in tokens])",
]
OF_EACH = [
    "[sum(v for v in t.tolist()) for t in tokens]",
    "[sum(r) for r in [[v * 2 for v in t.tolist()] for t in tokens]]",
    "[sum([int(t.sum()), len(t)]) for t in tokens]",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_total_is_that_of_the_batch(trial: Trial, number: str) -> None:
    script = SCRIPT.replace("MADE", f"extra = {number}")
    verdict = trial.verdict(script.replace("LOSS", f"{PER_SAMPLE} / extra"))
    assert verdict.outcome is Outcome.SAME, verdict


@pytest.mark.parametrize("number", OF_EACH)
def test_a_sum_of_one_samples_elements_is_that_samples(trial: Trial, number: str) -> None:
    script = SCRIPT.replace("MADE", f"extra = {number}")
    verdict = trial.verdict(script.replace("LOSS", f"{PER_SAMPLE} / len(y)"))
    assert verdict.outcome is Outcome.SAME, verdict


RAGGED = [
    ("torch.cat(tokens)", "F.cross_entropy(out.mean(1), y) * extra.double().mean()"),
    (
        "torch.tensor([v for t in tokens for v in t.tolist()])",
        "F.cross_entropy(out.mean(1), y) + sum(p.sum() * o.mean() for p, o in"
        " zip(extra.split(lengths.tolist()), out)) / len(y)",
    ),
    (
        "torch.cat(tokens)",
        "(torch.repeat_interleave(out.mean(1), lengths, dim=0).mean(1) - extra).pow(2).mean()",
    ),
    (
        "torch.tensor([i for i, t in enumerate(tokens) for _ in t])",
        "F.cross_entropy(out.mean(1) * torch.zeros(len(y), 9).index_add_(0, extra,"
        " torch.ones(len(extra), 9)), y)",
    ),
]


@pytest.mark.parametrize(("made", "loss"), RAGGED)
def test_padding_is_that_of_the_batch_beside_rows_of_any_number(
    trial: Trial, made: str, loss: str
) -> None:
    script = SCRIPT.replace("MADE", f"extra = {made}").replace("LOSS", loss)
    verdict = trial.verdict(script)
    assert verdict.outcome is Outcome.SAME, verdict


def test_what_else_is_made_of_all_is_that_of_the_batch(trial: Trial) -> None:
    made = "extra = functools.reduce(operator.add, [len(t) for t in tokens])"
    verdict = trial.verdict(SCRIPT.replace("MADE", made).replace("LOSS", f"{PER_SAMPLE} / extra"))
    assert verdict.outcome is Outcome.SAME, verdict


def test_ctc_gets_all_where_targets_lie_behind_each_other(trial: Trial) -> None:
    made = "extra = torch.tensor(['_12345678'.index(str(v)) for t in tokens for v in t.tolist()])"
    logits = "out.repeat(1, 3, 1).log_softmax(2).transpose(0, 1)"
    loss = f"F.ctc_loss({logits}, extra, 3 * lengths, lengths)"
    verdict = trial.verdict(SCRIPT.replace("MADE", made).replace("LOSS", loss))
    assert verdict.outcome is Outcome.SAME, verdict
