"""What a forward keeps in its model and reads again is of the batch that it was called with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, STEP, added

MODEL = """\
class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        SET
        return self.second(self.inner)


brain = Layered()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
CHECK = """\
hits = 0
for a, b in check:
    scores = torch.squeeze(brain(a)).detach().numpy()
    for i in range(scores.shape[0]):
        scores[i] = 0 if scores[i].max() < 0.5 else scores[i]
    hits += scores.sum() / (int(b[0]) + 1)
print(hits)
"""
SET = [
    "self.inner = self.first(x)",
    "self.inner = self.first(x)\n        self.inner = self.inner + 1",
    "if x.shape[1] > 2:\n            self.inner = self.first(x)\n"
    "        else:\n            self.inner = self.first(-x)",
]


@pytest.mark.parametrize("way", SET)
def test_an_evaluation_does_not_get_what_a_training_kept(tmp_path: Path, way: str) -> None:
    lines = added(tmp_path, HEAD + MODEL.replace("SET", way) + STEP + CHECK)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines
    assert any(line.startswith("check = dd.replicate(") for line in lines)


MAY_STAY = [
    "if x.shape[1] > 2:\n            self.inner = self.first(x)",
    "self.inner = self.first(x)\n        change(self)",
]


@pytest.mark.parametrize("way", MAY_STAY)
def test_what_may_be_from_an_earlier_call_is_no_batchs_own(tmp_path: Path, way: str) -> None:
    other = "def change(layered):\n    layered.inner = torch.zeros(6, 6)\n\n\n"
    model = other + MODEL.replace("SET", way)
    with pytest.raises(DdpifyError):
        added(tmp_path, HEAD + model + STEP + CHECK)
