"""Rows that a collate function or a loop puts under others that are no samples."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

READ = "print(f'{labels.double().mean().item():.6f}', len(labels))"
JOINED = [
    "labels = torch.cat((labels, torch.zeros(1, dtype=torch.long)))",
    "labels = torch.hstack((torch.zeros(1, dtype=torch.long), labels))",
    "labels = torch.from_numpy(np.concatenate([labels.numpy(), [9]]))",
    "labels = torch.from_numpy(np.append(labels.numpy(), 9))",
]
# Lists with items of no sample beside those of each.
LISTED = [
    "torch.tensor([*labels.tolist(), 9])",
    "torch.tensor([int(s[2]) for s in samples] + [9])",
    "torch.from_numpy(np.array([9, *(int(s[2]) for s in samples)]))",
    "torch.cumsum(torch.tensor([0] + [int(s[2]) for s in samples]), 0)",
]
GROWN = [
    "listed = [int(s[2]) for s in samples]\nlisted.append(9)",
    "listed = [int(s[2]) for s in samples]\nlisted.insert(0, 9)",
    "listed = [9]\nlisted.extend(int(s[2]) for s in samples)",
]
ENTERING = [
    "inputs = torch.cat((inputs, torch.ones(1, 4)))\ntargets = torch.cat((targets, targets[:1]))",
    "inputs = torch.vstack((torch.ones(2, 4), inputs))\n"
    "targets = torch.vstack((torch.ones(2, 4), targets))",
]
BESIDE = [
    "inputs = torch.cat((inputs, torch.ones(1, 4)))[1:]",
    "inputs = torch.cat((inputs[:, :3], torch.ones(len(samples), 1)), 1)",
    "inputs = torch.stack([torch.cat((s[0][1:], torch.ones(1))) for s in samples])",
    "inputs = torch.tensor([[*s[0].tolist()[1:], 1.0] for s in samples])",
    "labels = torch.tensor([int(s[2]) if s[2] > 1 else -1 for s in samples])",
    "lengths = [0]\nfor s in samples:\n    lengths.append(len(s[0]))\n"
    "labels = torch.tensor(lengths[:-1]).cumsum(0)",
]


@pytest.mark.parametrize("line", JOINED)
def test_rows_that_a_loop_reads_alone(trial: Trial, line: str) -> None:
    text = script("collate", line).replace("        loss = F", f"        {READ}\n        loss = F")
    assert_same(trial, text)
    assert_same(trial, script("loop", f"{line}\n{READ}"))


@pytest.mark.parametrize("listed", [*(f"listed = {one}.tolist()" for one in LISTED), *GROWN])
def test_lists_that_become_tensors(trial: Trial, listed: str) -> None:
    text = script("collate", f"{listed}\nlabels = torch.tensor(listed)")
    assert_same(trial, text.replace("        loss = F", f"        {READ}\n        loss = F"))


@pytest.mark.parametrize("lines", ENTERING)
def test_rows_that_enter_the_model_are_those_of_whole_batches(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED, Outcome.REFUSED), verdict.detail


@pytest.mark.parametrize("lines", BESIDE)
def test_as_many_rows_as_before(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail


def assert_same(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
