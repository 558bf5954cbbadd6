"""What is set as a parameter's values, or as its gradient, is the same on all ranks."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_MEAN = "out.detach().mean(0)"
_AGAIN = "loss = F.mse_loss(model(inputs), targets)"
SET = [
    f"model.bias.data = {_MEAN}\n{_AGAIN}",
    f"model.weight.data, model.bias.data = model.weight * 0.9, {_MEAN}\n{_AGAIN}",
    f"bias = model.bias\nbias.data = {_MEAN}\n{_AGAIN}",
    f"setattr(model.bias, 'data', {_MEAN})\n{_AGAIN}",
    f"model.get_parameter('bias').data = {_MEAN}\n{_AGAIN}",
    f"for p in model.parameters():\n    p.data = p.data * 0.9 + 0.1 * out.detach().std()\n{_AGAIN}",
    f"m = {_MEAN}\nfor name, p in model.named_parameters():\n    if name == 'bias':\n"
    f"        p.data = m\n{_AGAIN}",
    f"model.bias.data = out.detach()[0]\n{_AGAIN}",
    f"model.bias.grad = {_MEAN}\noptimizer.step()\n{_AGAIN}",
    "loss.backward(retain_graph=True)\nmodel.bias.grad.data = out.detach().amax(0)\n"
    f"optimizer.step()\n{_AGAIN}",
]


@pytest.mark.parametrize("lines", SET)
def test_all_ranks_set_the_same(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
