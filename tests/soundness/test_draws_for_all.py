"""What a forward draws for all samples is the same on all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.known_forms import script

DRAWN = [
    "torch.distributions.Beta(0.4, 0.4).sample()",
    "torch.distributions.Normal(0.0, 1.0).sample((4,))",
    "torch.distributions.Dirichlet(torch.ones(4)).sample()",
    "torch.distributions.Normal(self.table[0], 1.0).rsample()",
    "torch.empty(1).uniform_()",
    "torch.zeros(4).normal_()",
    "h.new_empty(1, h.size(1)).bernoulli_(0.5)",
    "torch.bernoulli(torch.full((4,), 0.5))",
    "torch.normal(0.0, 1.0, (4,))",
    "torch.multinomial(torch.ones(4), 1)",
    "torch.poisson(torch.ones(4))",
    "torch.full((4,), 0.5).bernoulli()",
    "nn.init.normal_(torch.empty(4))",
    "torch.randn_like(self.table)[0]",
    "torch.randint_like(self.table, 3)[0]",
    "torch.rand(*self.table.shape)[0]",
    "torch.rand([4])",
    "F.gumbel_softmax(torch.zeros(4))",
    "torch.rand(1).item()",
    "(torch.distributions.Bernoulli(0.5).sample() if self.training else 1.0)",
]


@pytest.mark.parametrize("drawn", DRAWN)
def test_ranks_draw_alike(trial: Trial, drawn: str) -> None:
    verdict = trial.verdict(script("forward", f"u = {drawn}\nh = h * (1 + u)"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_so_does_what_is_filled_under_a_name(trial: Trial) -> None:
    lines = "u = torch.zeros(2, 4)\nu[0].uniform_()\nu.exponential_()\nh = h * u.sum(0)"
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


OF_EACH = [
    "torch.rand_like(h)",
    "torch.distributions.Normal(h, 1.0).rsample()",
    "torch.empty_like(h).bernoulli_(0.5)",
    "h.new_empty(h.size(0), 1).normal_()",
    "F.dropout(h, 0.5)",
    "torch.rand(4, generator=torch.Generator().manual_seed(0))",
]


@pytest.mark.parametrize("drawn", OF_EACH)
def test_what_is_drawn_for_each_sample_is_a_ranks_own(tmp_path: Path, drawn: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("forward", f"h = h * {drawn}"))
    assert f"h = h * {drawn}" in convert_file(path).data.decode()
