"""What a run tells its functions decides whether it has several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.test_runs import linted

SHARED = """\
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

def fit(model, loader, {parameters}):
    if {condition}:
        torch.distributed.init_process_group("nccl")
        model = DDP(model.to(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model
"""
ENTRY = """\
import os
import torch
from torch.utils.data import DataLoader, TensorDataset
from shared import fit

dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
if __name__ == "__main__":
    {start}
    fit(torch.nn.Linear(10, 2), DataLoader(dataset, 32, shuffle=True){told})
    torch.save(1, "done.pt")
"""
RANK = 'local_rank = int(os.environ["LOCAL_RANK"])'
PARAMETERS, CONDITION = "several=True, local_rank=None", "several and local_rank is not None"


def _codes(folder: Path, start: str, told: str, **shared: str) -> set[str]:
    (folder / "train.py").write_text(ENTRY.format(start=start, told=told))
    (folder / "shared.py").write_text(
        SHARED.format(**{"parameters": PARAMETERS, "condition": CONDITION} | shared)
    )
    return {one.code for one in linted(folder) if not one.single}


def test_a_run_that_tells_a_rank_has_several_processes(tmp_path: Path) -> None:
    assert {"DDP101", "DDP501"} <= _codes(tmp_path, RANK, ", local_rank=local_rank")


@pytest.mark.parametrize(
    ("told", "shared"),
    [
        ("", {}),
        (", local_rank=None", {}),
        (", several=False, local_rank=0", {"condition": "several"}),
        (", None", {"parameters": "local_rank", "condition": "not (local_rank is None)"}),
        (', "one"', {"parameters": "mode, local_rank=0", "condition": 'mode == "many"'}),
    ],
)
def test_a_run_that_tells_no_rank_has_one_process(
    told: str, shared: dict[str, str], tmp_path: Path
) -> None:
    assert not _codes(tmp_path, "pass", told, **shared)


@pytest.mark.parametrize(
    "shared",
    [
        {"condition": "(local_rank := local_rank or 0) is not None"},
        {"parameters": "several=True, local_rank=0"},
        {"condition": "several or local_rank is not None"},
    ],
)
def test_a_default_that_leads_to_the_wrapper(shared: dict[str, str], tmp_path: Path) -> None:
    assert "DDP101" in _codes(tmp_path, "pass", "", **shared)
