"""Models that are called on pieces of a batch alone, which are put together again in order."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def batchify(function, chunk):
    if chunk is None:
        return function

    def apply(rows):
        return torch.cat([function(rows[i : i + chunk]) for i in range(0, rows.shape[0], chunk)], 0)

    return apply


def flattened(rows):
    each = torch.linspace(0, 1, 6)[:, None] * rows[:, None]
    out = batchify(model, 5)(torch.reshape(each, [-1, each.shape[-1]]))
    return torch.reshape(out, [*each.shape[:-1], out.shape[-1]]).sum(1)


def rendered(rows, gain):
    out = model(rows)
    return {"out": out, "weight": gain * out.mean(-1)}


def kept_by_name(rows):
    found = {}
    for i in range(0, rows.shape[0], 3):
        part = rendered(rows[i : i + 3], gain=2.0)
        for key in part:
            if key not in found:
                found[key] = []
            found[key].append(part[key])
    found = {key: torch.cat(found[key], 0) for key in found}
    return found["out"] * found["weight"][:, None]


def appended(rows):
    parts = []
    for part in torch.split(rows, 3):
        parts.append(model(part))
    return torch.cat(parts)


torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randn(22, 4), torch.randn(22, 3)), 8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 6), NORMALISED, nn.Tanh(), nn.Linear(6, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = F.mse_loss(OUT, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
OUT = [
    "batchify(model, 3)(x)",
    "flattened(x)",
    "kept_by_name(x)",
    "appended(x)",
    "torch.cat([model(part) for part in x.chunk(3)])",
    "torch.cat([model(part) for part in torch.split(x, 3)], dim=0)",
]


@pytest.mark.parametrize("out", OUT)
def test_they_train_on_the_pieces_of_all_ranks(trial: Trial, out: str) -> None:
    assert_same(trial, SCRIPT.replace("OUT", out).replace("NORMALISED", "nn.Identity()"))


@pytest.mark.parametrize("out", OUT[-2:])
def test_so_do_those_that_normalise_over_a_piece(trial: Trial, out: str) -> None:
    text = SCRIPT.replace("OUT", out).replace("NORMALISED", "nn.BatchNorm1d(6)")
    assert_same(trial, text)


def assert_same(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
