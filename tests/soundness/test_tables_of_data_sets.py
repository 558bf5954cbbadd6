"""Tables with a row for each sample of a data set, which batches fill at their samples' places."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(905)
data = TensorDataset(torch.randn(22, 5), torch.randint(0, 3, (22,)), torch.arange(22))
loader = DataLoader(data, batch_size=6, shuffle=True)
test = DataLoader(data, batch_size=6)
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def encode():
    table = None
    with torch.no_grad():
        for i, (inputs, labels, ids) in enumerate(test):
            rows = model(inputs)
            array = rows.numpy()
            if FIRST:
                table = MADE
            LINES
    return table


for epoch in range(2):
    for inputs, labels, ids in loader:
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    table = encode()
    print(f"{loss.item():.6f} {table.sum().item():.6f} {table[3].sum().item():.6f}")
"""
ARRAY = "np.zeros((len(test.dataset), 3))"
TENSOR = "torch.zeros(len(test.dataset), 3)"
LISTS = [
    "list(ids)",
    "list(ids), :",
    "list(ids), ...",
    "[*ids]",
    "[one for one in ids]",
    "[int(one) for one in ids]",
    "[one for _, one in enumerate(ids)]",
    "[one for one, _ in zip(ids, labels)]",
    "[one for one in ids if one >= 0]",
    "list(ids.numpy())",
    "list(tuple(ids))",
    "np.fromiter(ids, dtype=int)",
]
WRITES = [(ARRAY, f"table[{index}] = array") for index in LISTS] + [
    (ARRAY, "places = list(ids)\ntable[places] += array"),
    (ARRAY, "places = []\nfor one in ids:\n    places.append(one)\ntable[places] = array"),
    (ARRAY, "table[np.isin(np.arange(22), ids.numpy())] = array"),
    (ARRAY, "table[i * 6 : (i + 1) * 6] = array"),
    (TENSOR, "table[ids.tolist()] = rows"),
    (TENSOR, "table[[one.item() for one in ids]] = rows"),
    (TENSOR, "table[i * 6 : i * 6 + len(rows)].copy_(rows)"),
    (TENSOR, "table[: len(rows)].mul_(0.5).add_(rows)"),
    (TENSOR, "table.index_put_((ids, labels), rows[:, 0], accumulate=True)"),
    (TENSOR, "table.scatter_(0, ids[:, None].expand(-1, 3), rows)"),
    (TENSOR, "table = table * 0.9\ntable.scatter_(0, labels[:, None].expand(-1, 3), rows)"),
]


def _script(first: str, made: str, lines: str) -> str:
    text = SCRIPT.replace("FIRST", first).replace("MADE", made)
    return text.replace("LINES", lines.replace("\n", "\n            "))


@pytest.mark.parametrize("first", ["table is None", "i == 0"])
@pytest.mark.parametrize(("made", "lines"), WRITES)
def test_what_the_first_round_makes_outlives_its_batch(
    trial: Trial, first: str, made: str, lines: str
) -> None:
    verdict = trial.verdict(_script(first, made, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(("made", "lines"), WRITES)
def test_what_is_made_before_the_loop_does_too(trial: Trial, made: str, lines: str) -> None:
    text = _script("False", "None", lines).replace("table = None", f"table = {made}", 1)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (ARRAY, "table = np.zeros((22, 3))\ntable[list(ids)] = array"),
        (TENSOR, "table = torch.zeros(22, 3)\ntable.scatter_(0, ids[:, None].expand(-1, 3), rows)"),
        (TENSOR, "if i % 2:\n    table = torch.zeros(22, 3)\n    table[ids.tolist()] = rows"),
    ],
)
def test_what_each_round_makes_is_filled_from_its_whole_batch(
    trial: Trial, made: str, lines: str
) -> None:
    verdict = trial.verdict(_script("table is None", made, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
