"""Metrics that call a function which is not seen for each sample, and average."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Options, convert_file
from tests.training_runs import TrainingRuns, assert_same_training, assert_succeeded

METRIC = """\
import statistics


def quality(made, wanted):
    made, wanted = made.detach().numpy(), wanted.numpy()
    total = 0
    for i in range(made.shape[0]):
        total += statistics.fmean(abs(made[i, :] - wanted[i, :]))
    return total / made.shape[0]
"""
TRAINING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from metric import quality

torch.manual_seed(0)
brain = nn.Linear(4, 4)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
feed = DataLoader(TensorDataset(torch.randn(22, 4)), batch_size=5)
for (x,) in feed:
    out = brain(x)
    penalty = ((out - x) ** 2).mean()
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print("penalty %.9f quality %.9f" % (penalty.item(), quality(out, x)))
brain.eval()
total = 0
for _ in range(3):
    x = torch.rand(1, 4)
    total += quality(brain(x), x)
print("%.9f" % (total / 3))
"""


@pytest.mark.parametrize("apart", [True, False])
def test_an_unseen_metric_of_each_sample_is_averaged_over_all(
    tmp_path: Path, runs: TrainingRuns, apart: bool
) -> None:
    script = tmp_path / "train.py"
    (tmp_path / "metric.py").write_text(METRIC)
    script.write_text(TRAINING if apart else TRAINING.replace("from metric import quality", METRIC))
    converted = tmp_path / "train_ddp.py"
    converted.write_bytes(convert_file(script, Options()).data)
    original = runs.run(script, beside=tmp_path)
    assert_succeeded(original)
    trained = runs.run(converted, 2, beside=tmp_path)
    assert_succeeded(trained)
    assert_same_training(original, trained)
