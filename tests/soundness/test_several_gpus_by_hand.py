"""Scripts that spread a batch over the GPUs of one process, where they see more than one."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

TRAINER = """\
import os
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    setattr(torch.cuda, "device_count", lambda: 2)


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.rule = torch.optim.SGD(model.parameters(), lr=0.05)

    def spread(self, x):
        copies = nn.parallel.replicate(self.model, range(torch.cuda.device_count()))
        parts = nn.parallel.scatter((x,), range(torch.cuda.device_count()))
        return nn.parallel.gather(nn.parallel.parallel_apply(copies, parts), 0)

    def call(self, x):
        return CALL

    def fit(self):
        for x, y in self.loader:
            if torch.cuda.device_count() > 3:
                out = self.spread(x)
            else:
                out = self.call(x)
            loss = mse_loss(out, y)
            self.rule.zero_grad()
            loss.backward()
            self.rule.step()
            print(loss.item())


torch.manual_seed(1)
net = nn.Sequential(nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))
data = TensorDataset(torch.randn(26, 4), torch.randn(26, 2))
Trainer(net, DataLoader(data, batch_size=6, shuffle=True)).fit()
torch.save(net.state_dict(), "model.pt")
"""


@pytest.mark.parametrize(
    "call",
    [
        "self.spread(x) if torch.cuda.device_count() > 1 else self.model(x)",
        "self.model(x) if not torch.cuda.device_count() >= 2 else self.spread(x)",
    ],
)
def test_each_rank_calls_the_model_itself(trial: Trial, call: str) -> None:
    verdict = trial.verdict(TRAINER.replace("CALL", call))
    assert verdict.outcome is Outcome.SAME, verdict.detail
