"""Lists of a batch's samples, each of another length, that a loop or a forward pads."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LISTS = {
    "comprehension": "texts = [row[row > 0] for row in ROWS]",
    "numbers": "texts = [ROWS[i, : int(labels[i]) + 1] for i in range(len(ROWS))]",
    "zip": "texts = [row[: int(n) + 1] for row, n in zip(ROWS, labels)]",
    "generator": "texts = tuple(row[row > 0] for row in ROWS)",
    "append": "texts = []\nfor row in ROWS:\n    texts.append(row[row > 0])",
    "added": "texts = []\nfor i in range(len(ROWS)):\n    texts += [ROWS[i][ROWS[i] > 0]]",
}
READS = [
    "padded.shape[0]",
    "padded.size(0)",
    "len(padded)",
    "padded.mean()",
    "padded.sum(0).mean()",
    "0.1 * padded.numel()",
]
PAD = "padded = torch.nn.utils.rnn.pad_sequence(texts)"


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("made", LISTS)
def test_they_are_padded_to_the_longest_of_all_ranks(trial: Trial, made: str, read: str) -> None:
    lines = LISTS[made].replace("ROWS", "targets")
    verdict = trial.verdict(script("loop", f"{lines}\n{PAD}\nloss = loss * (1 + {read})"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("made", ["comprehension", "append"])
def test_so_they_are_in_a_forward(trial: Trial, made: str) -> None:
    lines = LISTS[made].replace("ROWS", "h")
    verdict = trial.verdict(script("forward", f"{lines}\n{PAD}\nh = h * padded.shape[0]"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
