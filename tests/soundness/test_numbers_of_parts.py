"""The length of a batch that is a tuple, list or dictionary: the number of its parts, not rows."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset


class Data(Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, i):
        x, y = torch.linspace(-1, i, 6), i % 3
        return SAMPLE


def collate(samples):
    x = torch.stack([s["x"] for s in samples])
    y = torch.tensor([s["y"] for s in samples])
    return {"x": x, "y": y}


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = DATA
loader = DataLoader(data, batch_size=6, shuffle=True, COLLATE)
for epoch in range(2):
    total, right = 0, 0
    for batch in loader:
        TAKEN
        x = x.double()
        out = model(x)
        loss = F.cross_entropy(out, y)
        COUNTED
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, total, right)
"""
PAIRS = "x, y"
NAMED = '{"x": x, "y": y, "n": i}'
BY_NAME = 'x, y = batch["x"], batch["y"]'
UNPACKED = "x, y = batch"
BY_PLACE = "x, y = batch[0], batch[1]"
# How the batch is made, and taken apart.
MADE = {
    "pairs": (PAIRS, "Data()", "", UNPACKED),
    "by place": (PAIRS, "Data()", "", BY_PLACE),
    "part of a data set": (PAIRS, "Subset(Data(), range(20))", "", BY_PLACE),
    "tensors": (PAIRS, "TensorDataset(torch.ones(22, 6), torch.arange(22) % 3)", "", BY_PLACE),
    "dictionaries": (NAMED, "Data()", "", BY_NAME),
    "collated": (NAMED, "Data()", "collate_fn=collate", BY_NAME),
    "unknown": (PAIRS, "[Data()[i] for i in range(22)]", "", UNPACKED),
}
COUNTED = [
    "total += len(batch)",
    "if len(batch) == 2:\n            total += 1",
    "right += (out.argmax(1) == y).sum().item() / len(batch)",
    "n = len(batch)\n        total += n * len(x)",
]
SINGLE = "total += sum((out[i].argmax() == y[i]).item() for i in range(len(batch) - 1))"
OF_PARTS = "total += sum(len(part) for part in batch)"


@pytest.mark.parametrize("made", MADE)
def test_a_batch_is_as_long_as_it_has_parts(trial: Trial, made: str) -> None:
    assert_same(trial, made, COUNTED[0])


@pytest.mark.parametrize("counted", COUNTED[1:])
def test_that_number_decides_and_divides(trial: Trial, counted: str) -> None:
    assert_same(trial, "by place", counted)


def test_first_samples_are_taken_from_the_whole_batch(trial: Trial) -> None:
    assert_same(trial, "collated", SINGLE)


def test_each_part_is_as_long_as_it_has_rows(trial: Trial) -> None:
    assert_same(trial, "by place", OF_PARTS)


def test_a_tensor_is_as_long_as_it_has_rows(trial: Trial) -> None:
    text = script(("x", "Data()", "", "x, y = batch, batch[:, 0].long().clamp(0)"), COUNTED[0])
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


def assert_same(trial: Trial, made: str, counted: str) -> None:
    verdict = trial.verdict(script(MADE[made], counted))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def script(made: tuple[str, str, str, str], counted: str) -> str:
    text = SCRIPT.replace("COUNTED", counted)
    for name, lines in zip(("SAMPLE", "DATA", "COLLATE", "TAKEN"), made, strict=True):
        text = text.replace(name, lines)
    return text
