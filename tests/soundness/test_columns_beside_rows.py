"""A column of samples beside one number of each: PyTorch makes a row of all for each sample."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

COLUMNS = [
    "out.index_select(1, torch.tensor([0]))",
    "out.chunk(4, 1)[0]",
    "out.split(1, 1)[0]",
    "out.narrow(1, 0, 1)",
    "out.gather(1, labels[:, None])",
    "torch.cat([out[:, :1]], 1)",
    "out.unfold(1, 4, 1).sum(-1)",
]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_rows_are_those_of_all_ranks(trial: Trial, column: str) -> None:
    lines = f"r = {column} - targets[:, 0]\nloss = loss + 0.1 * r.pow(2).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


SINGLE = [
    "torch.distributions.Categorical(logits=out).log_prob(labels)",
    "torch.distributions.Categorical(logits=out).entropy()",
    "torch.distributions.Normal(out[:, 0], 1.0).log_prob(targets[:, 0])",
    "torch.distributions.Normal(out, 1.0).mean.sum(1)",
    "torch.distributions.Independent(torch.distributions.Normal(out, 1.0), 1).log_prob(targets)",
    "torch.distributions.kl_divergence(torch.distributions.Categorical(logits=out),"
    " torch.distributions.Categorical(logits=targets))",
    "torch.linalg.vecdot(out, targets)",
    "torch.vmap(lambda a, b: (a * b).sum())(out, targets)",
    "torch.tensor([row.sum() for row in targets])",
    "torch.bmm(out[:, None], targets[:, :, None]).squeeze()",
    "(out.unsqueeze(1) @ targets.unsqueeze(2)).squeeze()",
    "(out.unsqueeze(1) @ targets.unsqueeze(2)).reshape(len(out))",
]


@pytest.mark.parametrize("numbers", SINGLE)
def test_one_number_of_each_meets_all_of_a_column(trial: Trial, numbers: str) -> None:
    lines = f"r = {numbers} * targets[:, :1]\nloss = loss + 0.1 * (r * out.mean()).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


BESIDE_ALL = [
    "torch.distributions.Normal(out, 1.0).log_prob(targets.flip(0))",
    "torch.distributions.Normal(out.flip(0), 1.0).log_prob(targets)",
    "torch.distributions.kl_divergence(torch.distributions.Normal(out, 1.0),"
    " torch.distributions.Normal(targets.flip(0), 1.0))",
]


@pytest.mark.parametrize("rows", BESIDE_ALL)
def test_a_distribution_meets_rows_of_all_ranks(trial: Trial, rows: str) -> None:
    verdict = trial.verdict(script("loop", f"loss = loss - 0.1 * {rows}.mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
