"""Layers that normalise over the batch do so over all ranks', whatever model they are part of."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
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
    ("", "h = nn.BatchNorm1d(4)(h)"),
    (
        "class Twice(nn.BatchNorm1d):\n    def forward(self, x):\n"
        "        return super().forward(x) * 2\nnorm = Twice(4)",
        "h = norm(h)",
    ),
    ("def normalised(x, norm=nn.BatchNorm1d(4)):\n    return norm(x)", "h = normalised(h)"),
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


_BLOCK = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return passed(self.norm, self.line(x))


def passed(layer, x):
    return layer(x)


"""


def test_blocks_of_a_trained_model_normalise_their_own_rows(tmp_path: Path) -> None:
    text = script("loop", "pass").replace("torch.manual_seed", f"{_BLOCK}torch.manual_seed", 1)
    model = "nn.Sequential(nn.Sequential(Block(), Block()), nn.Linear(4, 4))"
    path = tmp_path / "script.py"
    path.write_text(text.replace("model = nn.Linear(4, 4)", f"model = {model}"))
    made = convert_file(path).data.decode()
    assert f"model = dd.wrap({model})" in made
    assert "dd.gather" not in made
