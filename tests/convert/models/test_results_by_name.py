"""A model that gives a loss by name where it gets targets, and an evaluation that runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Windows(Dataset):
    def __init__(self, length):
        self.series = torch.randn(length)

    def __len__(self):
        return len(self.series) - 4

    def __getitem__(self, i):
        return {"past": self.series[i : i + 4], "future": self.series[i + 4]}


class Output(dict):
    pass


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, past, future=None):
        made = self.head(past).squeeze(-1)
        if future is None:
            return GIVEN(guess=made)
        return GIVEN(guess=made, loss=F.mse_loss(made, future))


def moved(batch):
    return {k: v.to("cpu") for k, v in batch.items()}


@torch.no_grad()
def evaluate():
    guesses, truth, losses = [], [], []
    for batch in check:
        batch = moved(batch)
        given = brain(CALL)
        losses.append(given["loss"].repeat(batch["past"].size(0)))
        guesses.append(given["guess"].cpu())
        truth.append(batch["future"].cpu())
    guesses, truth = torch.cat(guesses), torch.cat(truth)
    off = ((truth - guesses) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    return f"{torch.cat(losses).mean().item():.6f} {off:.6f} {len(truth)}"


feed = DataLoader(Windows(17), batch_size=5, shuffle=True)
check = DataLoader(Windows(15), batch_size=7)
brain = Model()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
total = torch.tensor(0.0)
for step, batch in enumerate(feed):
    batch = moved(batch)
    loss = brain(CALL)["loss"]
    rule.zero_grad()
    loss.backward()
    rule.step()
    total += loss.detach()
    if step % 2 == 1:
        print(step, f"{total.item():.6f}", evaluate())
print(evaluate())
"""


@pytest.mark.parametrize("given", ["dict", "Output"])
@pytest.mark.parametrize("call", ["**batch", 'batch["past"], batch["future"]'])
def test_a_loss_by_name(given: str, call: str, tmp_path: Path, trial: Trial) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING.replace("GIVEN", given).replace("CALL", call))
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)
