"""What a script makes with one row alone, as a step of an episode is, is no batch to split."""

from __future__ import annotations

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
draws = np.random.RandomState(0)
for episode in range(3):
    state, logs = draws.randn(4), []
    for _ in range(5):
        seen = torch.as_tensor(state, dtype=torch.get_default_dtype())
        chances = torch.distributions.Categorical(logits=policy(seen))
        action = chances.sample()
        logs.append(chances.log_prob(action))
        state = 0.9 * state + 0.1 * action.item()
    loss = -torch.stack(logs).sum() * state.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_single_steps_are_not_split(trial: Trial) -> None:
    verdict = trial.verdict(SCRIPT)
    assert verdict.outcome is Outcome.REFUSED, verdict
