"""Settings, and a forward, that a layer, a loss or a model gets after it is made."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SET = [
    ("soft = nn.Softmax(1)\nsoft.dim = 0", "loss = loss + (soft(out) * targets).mean()"),
    ("sim = nn.CosineSimilarity()\nsim.dim = 0", "loss = loss + sim(out, targets).mean()"),
    ("flat = nn.Flatten()\nflat.start_dim = 0", "loss = loss + flat(out)[0]"),
    ("loss_of = nn.CrossEntropyLoss()\nloss_of.ignore_index = 1", "loss = loss_of(out, labels)"),
    (
        "loss_of = nn.CrossEntropyLoss()\nloss_of.weight = torch.arange(1.0, 5.0)",
        "loss = loss_of(out, labels)",
    ),
    (
        "loss_of = nn.MSELoss()\nloss_of.forward = lambda o, y: (o - y.mean(0)).pow(2).mean()",
        "loss = loss_of(out, targets)",
    ),
]
FORWARDS = [
    "model.forward = lambda v: F.linear(v - v.mean(0), model.weight, model.bias)",
    "old = model.forward\nmodel.forward = lambda v: old(v - v.mean(0))",
    "import types\n"
    "model.forward = types.MethodType(lambda self, v: F.linear(v, self.weight) / len(v), model)",
]
REDUCTIONS = [
    'loss_of.reduction = "sum"',
    'setattr(loss_of, "reduction", "sum")',
    'vars(loss_of)["reduction"] = "sum"',
]
NEW = "model = nn.Linear(4, 4)\n"


def _script(before: str, lines: str) -> str:
    text = script("loop", lines)
    assert NEW in text
    return text.replace(NEW, f"{NEW}{before}\n")


@pytest.mark.parametrize(("before", "lines"), SET)
def test_it_does_what_it_was_set_to(trial: Trial, before: str, lines: str) -> None:
    verdict = trial.verdict(_script(before, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("before", FORWARDS)
def test_a_forward_that_a_model_is_given(trial: Trial, before: str) -> None:
    verdict = trial.verdict(_script(before, "pass"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("line", REDUCTIONS)
def test_a_reduction_that_is_set_is_not_taken_for_a_mean(trial: Trial, line: str) -> None:
    before = f"loss_of = nn.MSELoss()\n{line}"
    verdict = trial.verdict(_script(before, "loss = loss_of(out, targets) / 10"))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
