"""The harness itself: it passes what is the same, and names the first thing that is not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.training_runs import (
    Training,
    TrainingRuns,
    assert_same_text,
    assert_same_training,
    assert_same_value,
)

SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(22, 3), torch.randn(22, 1))
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.6f}")
torch.save(model.state_dict(), "model.pt")
with open("log.txt", "w") as log:
    log.write(f"loss {loss.item():.6f}")
"""

Run = Callable[..., Training]


@pytest.fixture(scope="module")
def run(runs: TrainingRuns, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs SCRIPT, with replacements (old, new), each of which must apply."""
    path = tmp_path_factory.mktemp("script") / "script.py"

    def replaced(*replacements: tuple[str, str], world_size: int | None = None) -> Training:
        text = SCRIPT
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        return runs.run(path, world_size, deadline=300)

    return cache(replaced)


def test_same_script_is_the_same(run: Run) -> None:
    assert_same_training(run(), run(world_size=1))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("lr=0.1", "lr=0.2", "step 1: learning_rates"),
        ("lr=0.1", "lr=0.1, momentum=1e-6", "step 2: parameters"),
        ("mse_loss(model(x), y)", "mse_loss(model(x), y) * (1 + 1e-7)", "step 1: parameters"),
        ("manual_seed(0)", "manual_seed(1)", "step 1: parameters"),
        ("batch_size=8", "batch_size=8, drop_last=True", "4 steps, not 6"),
        ("model.parameters()", "model[2].parameters()", "length 2, not 4"),
        ("    print(", "    print('', end='') or print('again') or print(", "line 1: 'again'"),
        ("    print(", "    epoch and print(", "stdout of rank 0"),
        ('loss.item():.6f}")\nt', 'loss.item() * 1.001:.6f}")\nt', "line 1"),
        ('torch.save(model.state_dict(), "model.pt")', "", "files: ['log.txt'], not"),
        ("model.state_dict(), ", "{'module': model.state_dict()}, ", "files: model.pt"),
        ("model.state_dict(), ", "dict(model.state_dict()), ", "files: model.pt"),
        ('f"loss {loss', 'f"Loss {loss', "files: log.txt, line 1"),
        ("log.txt", "log2.txt", "files: "),
        ("nn.Dropout(0.5)", "nn.Identity(), *[torch.nn.Identity()] * 3", "of the work"),
        ("\ntorch.save(model", "\n1 / 0\ntorch.save(model", "ZeroDivisionError"),
    ],
)
def test_difference_is_named(run: Run, old: str, new: str, words: str) -> None:
    reference = run()
    with pytest.raises(AssertionError) as caught:
        assert_same_training(reference, run((old, new), world_size=1))
    assert words in str(caught.value)


def test_vacuous_run_is_refused(run: Run) -> None:
    frozen = run(("lr=0.1", "lr=0.0"))
    with pytest.raises(AssertionError, match="no parameter moves"):
        assert_same_training(frozen, frozen)


def test_unsplit_work_is_found(run: Run) -> None:
    with pytest.raises(AssertionError, match="rank 0 did 100% of the work"):
        assert_same_training(run(), run(world_size=2))


ONLY_RANK_0 = "if __import__('os').environ.get('RANK') in (None, '0'): "


@pytest.mark.parametrize(
    ("quiet", "words"),
    [
        (["save", "with"], "rank 1 prints"),
        (["print", "with"], "rank 1 writes ['model.pt']"),
        (["print", "save"], "rank 1 writes ['log.txt']"),
    ],
)
def test_other_ranks_are_silent(
    run: Run, quiet: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {
        "print": ("    print(", f"    {ONLY_RANK_0}print("),
        "save": ("torch.save(", f"{ONLY_RANK_0}torch.save("),
        "with": ("with open", f"{ONLY_RANK_0}\n  with open"),
    }
    changed = [lines[name] for name in quiet]
    if "with" in quiet:
        changed.append(("    log.write", "     log.write"))
    # Both ranks do all the work here, which is not what this test is about.
    monkeypatch.setattr("tests.training_runs.assert_work_is_shared", lambda *_: None)
    with pytest.raises(AssertionError) as caught:
        assert_same_training(run(), run(*changed, world_size=2))
    assert words in str(caught.value)


def test_ranks_get_torchruns_variables(runs: TrainingRuns, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import os, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.barrier()  # a rank that ends before the others have connected would break theirs\n"
        "names = ['RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE']\n"
        "print([os.environ[n] for n in names], dist.get_rank(), dist.get_world_size())\n"
        "dist.destroy_process_group()\n"
    )
    ranks = runs.run(path, 3).ranks
    assert [rank.stdout for rank in ranks] == [
        f"['{r}', '{r}', '3', '3'] {r} 3\n" for r in range(3)
    ]


@pytest.mark.torchrun
def test_torchrun_is_recorded_in_the_same_way(runs: TrainingRuns, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    assert_same_training(runs.run(path), runs.torchrun(path, 1))


def test_hanging_ranks_are_killed(runs: TrainingRuns, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import os, time\nif os.environ['RANK'] == '1': time.sleep(600)\n")
    start = time.monotonic()
    statuses = [rank.status for rank in runs.run(path, 2, deadline=20).ranks]
    assert statuses == [0, None]
    assert time.monotonic() - start < 60


def test_server_forgets_the_last_run(runs: TrainingRuns, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nprint(torch.get_default_dtype())\ntorch.set_default_dtype(torch.float16)\n"
    )
    assert [runs.run(path).ranks[0].stdout for _ in range(2)] == ["torch.float64\n"] * 2


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("loss 0.12345", "loss 0.12346"),
        ("loss -1.500e-04", "loss -1.500e-04"),
        ("5/10 (50%)", "5/10 (50%)"),
    ],
)
def test_rounding_is_no_difference(expected: str, actual: str) -> None:
    assert_same_text(expected, actual, "stdout")


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("loss 0.12345", "loss 0.12347"),
        ("loss 1.5e-04", "loss 1.6e-04"),
        ("accuracy 50.0%", "accuracy 50.1%"),
        ("5/10", "6/10"),
        ("loss 0.12345", "Loss 0.12345"),
        ("a\nb", "a"),
        ("a", "a\nb"),
    ],
)
def test_difference_in_text(expected: str, actual: str) -> None:
    with pytest.raises(AssertionError, match="stdout"):
        assert_same_text(expected, actual, "stdout")


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({0: 1.0}, {"0": 1.0}),
        ([1], [1.0]),
        ([1, 2], [1]),
        (1.0, 1.0 + 1e-6),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
        (torch.zeros(2), torch.tensor([0.0, 1e-6])),
        (torch.zeros(2), torch.nn.Parameter(torch.zeros(2))),
        (torch.arange(2), torch.tensor([0, 2])),
        (torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1)),
    ],
)
def test_difference_in_values(expected: object, actual: object) -> None:
    with pytest.raises(AssertionError, match="checkpoint"):
        assert_same_value(expected, actual, "checkpoint")


def test_environment_of_the_tests_is_left_alone(run: Run) -> None:
    run(world_size=1)
    assert "MASTER_PORT" not in os.environ
