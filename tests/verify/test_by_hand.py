"""Scripts that update their parameters themselves, without an optimizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.verify import Kind, What, render, verify
from ddpify.verify.launch.launcher import Worker

SCRIPT = """
import os, torch
import torch.distributed as dist
several = "RANK" in os.environ
if several:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
if several:
    model = torch.nn.parallel.DistributedDataParallel(model)
stock = torch.randn(48, 6)
for first in range(0, 48, 8):
    x = stock[first:first + 8][rank::world]
    model.zero_grad()
    for half in x.chunk(2):
        loss = (model(half) - half.sum(-1, keepdim=True)).square().mean() / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-RATE)
"""


def write(folder: Path, name: str, rate: str) -> Path:
    path = folder / name
    path.write_text(SCRIPT.replace("RATE", rate))
    return path


@pytest.mark.parametrize(("steps", "compared"), [(None, 6), (2, 2)])
def test_updates_are_steps(
    steps: int | None, compared: int, tmp_path: Path, worker: Worker
) -> None:
    original, port = write(tmp_path, "train.py", "0.1"), write(tmp_path, "port.py", "0.1")
    verdict = verify(original, port, worker=worker, timeout=300, steps=steps)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert verdict.steps == compared
    assert verdict.comparisons[0].same_data is True


@pytest.mark.parametrize(
    ("rate", "what"), [("0.1 * world", What.PARAMETER), ("0.1 * (rank == 0)", What.STEPS)]
)
def test_other_updates(rate: str, what: What, tmp_path: Path, worker: Worker) -> None:
    original, port = write(tmp_path, "train.py", "0.1"), write(tmp_path, "port.py", rate)
    verdict = verify(original, port, worker=worker, timeout=300)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].differences[0].what is what
