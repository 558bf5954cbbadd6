"""Loops through what one sample has, and writes at places that one sample tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.known_forms import script

PICTURE = (
    "z = []\nfor i in range(len(inputs)):\n    picture = inputs[i].clone()\n"
    "    for v in (targets[i] > 0).nonzero()[:, 0]:\n        picture[v] = 1.0\n"
    "    z.append(picture)\nloss = loss + (out * torch.stack(z)).mean()"
)
BY_A_FUNCTION = (
    "def marked(picture, mask):\n    for v in (mask > 0).nonzero()[:, 0]:\n"
    "        picture[v] = 1.0\n    return picture\n"
    "z = [marked(inputs[i].clone(), targets[i]) for i in range(len(inputs))]\n"
    "loss = loss + (out * torch.stack(z)).mean()"
)
ROWS = "z = inputs.clone()\nfor i in range(len(inputs)):\n"
USED = "loss = loss + (out * z).mean()"
OF_THE_SAMPLE = [
    PICTURE,
    BY_A_FUNCTION,
    f"{ROWS}    for v in (targets[i] > 0).nonzero()[:, 0]:\n        z[i, v] = 1.0\n{USED}",
    f"{ROWS}    z[i, targets[i].argmax()] = 1.0\n{USED}",
    "for i in range(len(inputs)):\n    for v in out[i]:\n        loss = loss + 0.1 * v",
]
OF_ANOTHER = [
    PICTURE.replace("targets[i]", "targets[i - 1]"),
    f"{ROWS}    for v in (targets[i - 1] > 0).nonzero()[:, 0]:\n        z[i, v] = 1.0\n{USED}",
    f"{ROWS}    j = i - 1\n    for v in (targets[j] > 0).nonzero()[:, 0]:\n"
    f"        z[i, v] = 1.0\n{USED}",
    f"{ROWS}    z[i, targets[i - 1].argmax()] = 1.0\n{USED}",
    f"{ROWS}    j = i - 1\n    z[i, targets[j].argmax()] = 1.0\n{USED}",
    "for i in range(len(inputs)):\n    kept = inputs[i]\n"
    "for v in (kept > 0).nonzero():\n    loss = loss * 0.9",
    "for v in inputs[0]:\n    loss = loss + 0.1 * v",
]
OF_ALL_ROUNDS = [
    "n = 0\nfor i in range(len(inputs)):\n    for v in (inputs[i] > 0).nonzero():\n"
    "        n += 1\nprint(n)",
    "n = 1.0\nfor i in range(len(inputs)):\n    for v in (inputs[i] > 0).nonzero():\n"
    "        n = n * 0.9\nloss = loss * n",
    "found = {}\nfor i in range(len(inputs)):\n    for v in (inputs[i] > 0).nonzero()[:, 0]:\n"
    "        found[int(v)] = found.get(int(v), 0) + 1\nprint(sorted(found.items()))",
    "for i in range(len(inputs)):\n    for v in (inputs[i] > 0).nonzero()[:, 0]:\n"
    "        print(int(v))",
    "for i in range(len(inputs)):\n    for v in inputs[i]:\n        if v > 0.5:\n"
    "            loss = loss + 0.1 * out.sum()",
]


@pytest.mark.parametrize("lines", [*OF_THE_SAMPLE, *OF_ANOTHER, *OF_ALL_ROUNDS])
def test_they_train_the_same(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", [PICTURE, BY_A_FUNCTION])
def test_ranks_go_through_their_own_samples(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(script("loop", lines))
    assert "dd.gather" not in convert_file(path).data.decode()
