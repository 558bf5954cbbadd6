"""The harness itself: it tells what is the same from what is not, and outlives its scripts."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.soundness.judging import Outcome, Run, content, original_fails
from benchmarks.soundness.trying import Trial

SCRIPT = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 3)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
torch.save(model.state_dict(), "model.pt")
"""
RANK = "import os\nrank = int(os.environ.get('RANK', '0'))\n"
CONVERTED = RANK + SCRIPT.replace("torch.save", "if rank == 0: torch.save")


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    trial = Trial(5.0, once=True)
    yield trial
    trial.close()


@pytest.fixture(scope="module")
def original(trial: Trial) -> Run:
    return trial.original(SCRIPT)


def test_what_all_ranks_do_alike_is_the_same_but_not_divided(trial: Trial, original: Run) -> None:
    assert trial.compared(original, CONVERTED).outcome is Outcome.UNDIVIDED


def test_a_conversion_is_the_same(trial: Trial) -> None:
    text = SCRIPT.replace("for step in range(3):", "for (x,) in loader:").replace(
        "model =",
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(torch.randn(10, 3)), batch_size=4)\n"
        "model =",
    )
    text = text.replace("torch.ones(4, 3)", "x")
    assert trial.verdict(text).outcome is Outcome.SAME


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("lr=0.1", "lr=0.1 + 1e-6 * rank", "rank 1, step 1: parameters differ"),
        (".mean()", ".sum()", "rank 0, step 1: parameters differ"),
        ("range(3)", "range(4)", "4 steps, not 3"),
        ('print(f"', 'print(f"loss ', "printed, line 1"),
        ("if rank == 0: torch.save", "torch.save", "rank 1 writes model.pt"),
        ("if rank == 0: torch.save", "if rank == 9: torch.save", "files"),
        ("{loss.item():.6f}", "{loss.item() * 1.001:.6f}", "printed, line 1"),
    ],
)
def test_what_differs(trial: Trial, original: Run, old: str, new: str, words: str) -> None:
    assert old in CONVERTED
    verdict = trial.compared(original, CONVERTED.replace(old, new))
    assert verdict.outcome is Outcome.DIFFERENT
    assert words in verdict.detail


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("if rank == 1: raise ValueError('one rank')", "rank 1: ValueError: one rank"),
        ("raise ValueError('all ranks')", "rank 0: ValueError: all ranks"),
        ("while rank == 1: pass", "rank 1 does not end"),
        ("if rank == 1: os._exit(3)", "rank 1 does not end"),
        ("import torch.distributed as d; rank or d.all_reduce(torch.ones(1))", "does not end"),
    ],
)
def test_the_next_script_runs_after_a_crash(
    trial: Trial, original: Run, line: str, words: str
) -> None:
    verdict = trial.compared(original, CONVERTED.replace("for step", f"{line}\nfor step"))
    assert verdict.outcome is Outcome.CRASH
    assert words in verdict.detail
    assert trial.compared(original, CONVERTED).outcome is Outcome.UNDIVIDED


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("model =", "model = undefined +", "NameError"),
        ("range(3)", "range(1)", "fewer than two"),
        ("lr=0.1", "lr=0.0", "no parameter moves"),
        ("lr=0.1", "lr=float('nan')", "not finite"),
    ],
)
def test_an_original_that_shows_nothing(trial: Trial, old: str, new: str, reason: str) -> None:
    assert reason in original_fails(trial.original(SCRIPT.replace(old, new)))


def test_archives_of_arrays_are_compared() -> None:
    file = io.BytesIO()
    np.savez(file, numbers=np.arange(3), words=np.array(["a", "b"], dtype=object))
    held = content(file.getvalue())
    assert held["numbers"].tolist() == [0, 1, 2]
    assert held["words"] == ["a", "b"]


def test_its_processes_keep_no_pipe_of_their_parent_open() -> None:
    """Else a server that waits for the end of its input waits for ever."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    trial = Trial(20.0, once=True)
    trial.original(SCRIPT)
    os.close(write)
    assert os.read(read, 1) == b""  # BlockingIOError where somebody may still write
    trial.close()
