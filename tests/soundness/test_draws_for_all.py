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


# Batches are made by hand, and what is drawn for comes from a tensor of the script's own.
BY_HAND = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.nodes = torch.arange(4)

    def forward(self, x):
        h = torch.tanh(self.one(x))
        a = F.embedding(self.nodes, self.two.weight)
        a = a + DRAWN
        return self.two(h @ a)


def batches(inputs, targets):
    order = torch.randperm(len(inputs))
    for start in range(0, len(inputs), 5):
        at = order[start : start + 5]
        yield inputs[at], targets[at]


def evaluate(inputs, targets):
    model.eval()
    with torch.no_grad():
        return [F.mse_loss(model(x), y).item() for x, y in batches(inputs, targets)]


inputs, targets = torch.randn(23, 4), torch.randn(23, 4)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    model.train()
    for x, y in batches(inputs, targets):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
    print(evaluate(inputs[:7], targets[:7]))
"""


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.rand_like(a)",
        "a.clone().normal_()",
        "torch.bernoulli(a.sigmoid())",
        "torch.empty_like(a).uniform_()",
        "F.gumbel_softmax(a, 0.3)",
    ],
)
def test_so_does_what_is_drawn_beside_batches_by_hand(trial: Trial, drawn: str) -> None:
    verdict = trial.verdict(BY_HAND.replace("DRAWN", drawn))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_of_a_batch_by_hand_are_drawn_for_by_each_rank(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(BY_HAND.replace("a = a + DRAWN", "h = h + torch.rand_like(h)"))
    assert "drawn_alike" not in convert_file(path).data.decode()


SEEDED = "g = torch.Generator().manual_seed(1)\n"


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.rand(len(h), 1, generator=g)",
        "torch.randn(h.shape, generator=g)",
        "torch.randint(0, 3, h.shape, generator=g)",
        "torch.zeros_like(h).normal_(generator=g)",
        "torch.empty(len(h), 1).uniform_(0, 1, generator=g)",
        "torch.bernoulli(torch.sigmoid(h), generator=g)",
        "torch.multinomial(torch.softmax(h, 1), 1, generator=g)",
        "torch.normal(torch.zeros(len(h), 4), 1.0, generator=g)",
    ],
)
def test_rows_from_a_generator_of_the_scripts_own(trial: Trial, drawn: str) -> None:
    verdict = trial.verdict(script("forward", f"{SEEDED}h = h * {drawn}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_that_lie_behind_another_dimension_are_refused(trial: Trial) -> None:
    lines = f"{SEEDED}h = h * torch.bernoulli(torch.sigmoid(h.t()), generator=g).t()"
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
