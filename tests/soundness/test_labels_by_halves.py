"""Labels for halves of a batch, or for several tensors under each other, in lists and tensors.

Each rank's first rows are not the first of the global batch.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.halved_batches import SCRIPT

HALVES = [
    "t = torch.tensor([1.0] * (n // 2) + [0.0] * (n - n // 2)); r = t * out[:, 0]",
    "t = torch.cat([torch.ones(n // 2), torch.zeros(n - n // 2)]); r = t * out[:, 0]",
    "t = torch.tensor([0.0, 1.0] * (n // 2) + [2.0] * (n % 2)); r = t * out[:, 0]",
    "h = len(both) // 2; t = np.array([[1]] * h + [[0]] * h)\n"
    "        r = (both.softmax(0) * torch.from_numpy(t)).sum()",
]
LABELS = [
    "t = torch.full((n // 2,), 2.0); r = (out[: n // 2, 0] * t).sum()",
    "h = int(0.5 * n); t = [1.0] * h + [0.0] * (n - h); r = torch.tensor(t[::-1]) * out[:, 0]",
    "t = [1.0] * n + [2.0]; r = sum(t) * out[:, 0]",
    "t = ['a'] * (n // 2) + ['b'] * (n - n // 2)\n"
    "        r = torch.stack([o.sum() * (2 if w == 'a' else 1) for o, w in zip(out, t)])",
    "t = torch.tensor([1.0] * n + [0.0] * n); r = (both[:, 0] * t).softmax(0).max()",
    "t = [0.5] * n + [1.0] * n; r = (both[:, 0] * torch.tensor(t)).logsumexp(0)",
]


@pytest.mark.parametrize("lines", HALVES + LABELS)
def test_labels_stand_beside_their_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
