"""Layers that normalise over the batch do so over all ranks', whatever model they are part of."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_ROW = "nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))"
_NETWORK = (
    "class Fixed(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.norm = nn.BatchNorm1d(4)\n"
    "    def forward(self, x):\n        return self.norm(x)\n"
)
IN_FORWARDS = [
    (f"fixed = {_ROW}", "h = h + fixed(inputs)"),
    (f"fixed = {_ROW}", "with torch.no_grad():\n    inputs = fixed(inputs)\nh = h + inputs"),
    (f"fixed = nn.ModuleList([*{_ROW}])",
     "h = h + fixed[1](fixed[0](inputs))"),
    ("norm = nn.BatchNorm1d(4)", "h = h + norm(inputs)"),
    (f"{_NETWORK}fixed = [Fixed()]", "h = h + fixed[0](inputs)"),
]  # fmt: skip
IN_COLLATE = [
    ("norm = nn.BatchNorm1d(4)", "inputs = norm(inputs).detach()"),
    ("norm = nn.BatchNorm1d(4)", "inputs = inputs + F.instance_norm(inputs[:, None]).squeeze(1)"),
    (f"fixed = {_ROW}", "inputs = inputs + fixed(inputs).detach()"),
]


def _with(setting: str, place: str, lines: str) -> str:
    text = script(place, lines).replace("torch.manual_seed", f"{setting}\ntorch.manual_seed", 1)
    return text.replace("(11", "(12")  # so that no batch has a single row


@pytest.mark.parametrize(
    ("place", "setting", "lines"),
    [
        *(("forward", *one) for one in IN_FORWARDS),
        *(("collate", *one) for one in IN_COLLATE),
    ],
)
def test_they_take_the_statistics_of_all_samples(
    trial: Trial, place: str, setting: str, lines: str
) -> None:
    setting = f"torch.manual_seed(7)\n{setting}"
    verdict = trial.verdict(_with(setting, place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_a_layer_that_a_forward_makes_is_refused(trial: Trial) -> None:
    verdict = trial.verdict(_with("", "forward", "h = nn.BatchNorm1d(4)(h)"))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
