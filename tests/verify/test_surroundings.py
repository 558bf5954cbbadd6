"""What a script leaves to luck differs between the ranks; what it writes is compared by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.verify import Kind, Verdict, What, render, verify
from ddpify.verify.launch.launcher import Worker

TRAINING = """
import os, sys, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
several = "RANK" in os.environ
if several:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
{numbers}
torch.manual_seed(0)
data = TensorDataset(torch.tensor(numbers).view(-1, 1).double(), torch.arange(len(numbers)) % 2)
model = torch.nn.Linear(1, 2)
if several:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    loss = torch.nn.functional.cross_entropy(model(x[rank::world]), y[rank::world])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{end}
"""
WORDS = "ant bee cat dog eel fox gnu hen"


def verdict_on(folder: Path, worker: Worker, numbers: str, end: str = "") -> Verdict:
    script = folder / "train.py"
    script.write_text(TRAINING.format(numbers=numbers, end=end))
    return verify(script, script, worker=worker, timeout=300)


def test_what_depends_on_nothing_is_equivalent(tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, "numbers = list(range(8))")
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)


@pytest.mark.parametrize(
    "numbers",
    [
        f"words = set('{WORDS}'.split())\nnumbers = [len(w) + ord(w[0]) for w in words]",
        "import random\nnumbers = [random.randrange(99) for _ in range(8)]",
    ],
)
def test_what_is_left_to_luck_shows(numbers: str, tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, numbers)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    found = verdict.comparisons[0].differences[0]
    assert found.what is What.DATA
    assert found.cause is not None
    assert found.cause.rules == ("DDP108", "DDP116")


@pytest.mark.parametrize(
    "numbers",
    [
        "numbers = [int(name[:-2]) for name in os.listdir('items')]",
        "import glob\nnumbers = [int(name[6:-2]) for name in glob.glob('items/*.x')]",
    ],
)
def test_the_order_of_a_folder_is_noted(numbers: str, tmp_path: Path, worker: Worker) -> None:
    """The processes of one machine see one order; those of several need not."""
    (tmp_path / "items").mkdir()
    for number in range(8):
        (tmp_path / "items" / f"{number}.x").touch()
    verdict = verdict_on(tmp_path, worker, numbers)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    (note,) = verdict.comparisons[0].notes
    assert "DDP116" in note
    assert "train.py:" in note


@pytest.mark.parametrize("value", ["torch.ones(3).numpy() * world", "loss.detach().numpy()"])
def test_arrays_are_compared_by_content(value: str, tmp_path: Path, worker: Worker) -> None:
    end = f"import numpy\nif rank == 0: numpy.save('array', {value})"
    verdict = verdict_on(tmp_path, worker, "numbers = list(range(8))", end)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    found = verdict.comparisons[0].differences[0]
    assert (found.what, found.name) == (What.FILE, "array.npy")
