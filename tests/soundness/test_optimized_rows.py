"""An optimizer of its own for tensors that no model holds: rows of a batch, or the same for all."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

MADE = [
    ("nn.Parameter(torch.zeros_like(inputs))", "torch.optim.SGD([p], lr=0.1)"),
    ("torch.zeros_like(inputs, requires_grad=True)", "torch.optim.Adam([{'params': [p]}], lr=0.1)"),
    ("inputs.clone().requires_grad_()", "torch.optim.RMSprop([p, *model.parameters()], lr=0.01)"),
    ("nn.Parameter(torch.zeros(4))", "torch.optim.Adam([p], lr=0.1)"),
    ("torch.zeros(1, requires_grad=True)", "torch.optim.SGD([p], lr=0.1, momentum=0.9)"),
]
STEP = (
    "own.zero_grad()\nF.mse_loss(model(inputs + p), targets).backward()\nCHANGED\nown.step()\n"
    "print(p.sum().item())\nloss = F.mse_loss(model(inputs + p.detach()), targets)\n"
)
CHANGED = [
    "p.grad.div_(p.grad.norm(dim=1, keepdim=True))",
    "p.grad *= 2",
    "p.grad[labels > 1] = torch.randn_like(p.grad[labels > 1])",
    "print(p.grad.max().item())",
    "for _ in range(2):\n    own.step()\n    p.data = p.data.clamp(-0.01, 0.01)",
]


@pytest.mark.parametrize(("made", "optimizer"), MADE)
def test_it_steps_as_in_one_process(trial: Trial, made: str, optimizer: str) -> None:
    lines = f"p = {made}\nown = {optimizer}\n" + STEP.replace("CHANGED\n", "") * 2
    assert_same(trial, lines)


@pytest.mark.parametrize("changed", CHANGED)
def test_so_it_does_where_the_gradient_of_rows_is_changed(trial: Trial, changed: str) -> None:
    made, optimizer = MADE[0]
    assert_same(trial, f"p = {made}\nown = {optimizer}\n" + STEP.replace("CHANGED", changed))


def test_one_that_goes_by_all_numbers_is_refused(trial: Trial) -> None:
    step = STEP.replace("CHANGED\n", "").replace("own.step()", "own.step(lambda: 0.0)")
    lines = f"p = {MADE[0][0]}\nown = torch.optim.LBFGS([p])\n{step}"
    assert trial.verdict(script("loop", lines)).outcome is Outcome.REFUSED


def assert_same(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
