"""Attributes of objects that another package makes, set in one file and read in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint import runner
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Confidence

SETTINGS = """\
from fvcore.common.config import CfgNode

_C = CfgNode()
_C.SOLVER = CfgNode()
_C.SOLVER.LR = 0.1

def get_cfg():
    return _C.clone()
"""
START = """\
import os
import torch
import torch.distributed as dist

def start(settings):
    settings.GPU = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(settings.GPU)
    dist.init_process_group("nccl")
    settings.RANK = dist.get_rank()
"""
VALIDATION = """\
import torch
import torch.distributed as dist
import torch.nn.functional as F

def validate(cfg, model, loader):
    total = torch.zeros(1).cuda()
    for x, y in loader:
        total += F.cross_entropy(model(x.cuda()), y.cuda(), reduction="sum").detach()
    if cfg.RANK != 0:
        return
    dist.all_reduce(total)
"""
ENGINE = """\
import torch.nn.functional as F
from validation import validate

def set_rate(cfg, optimizer):
    for group in optimizer.param_groups:
        group["lr"] = cfg.SOLVER.LR * (1 + cfg.RANK)

def fit(cfg, model, loader, optimizer):
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        set_rate(cfg, optimizer)
        for x, y in loader:
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            if cfg.RANK == 0:
                optimizer.step()
        validate(cfg, model, loader)
"""
TRAIN = """\
import copy
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from settings import get_cfg
from start import start
from engine import fit

def main():
    cfg = get_cfg()
    cfg.merge_from_file("a.yaml")
    start(cfg)
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset))
    model = DDP(torch.nn.Linear(10, 2).cuda(), device_ids=[cfg.GPU])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(cfg, model, loader, optimizer)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("cfg", {"DDP401", "DDP406", "DDP407"}),
        ("copy.deepcopy(cfg)", {"DDP401", "DDP406", "DDP407"}),
        ("get_cfg().loss", set()),
    ],
)
def test_a_rank_that_a_configuration_holds(
    given: str, found: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train = TRAIN.replace("fit(cfg, ", f"fit({given}, ")
    texts = {"settings": SETTINGS, "start": START, "engine": ENGINE, "train": train}
    texts["validation"] = VALIDATION
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
    results = runner.lint_files(sorted(Path().glob("*.py")), Settings(), jobs=1, cached=False)
    diagnostics = [one for _, result in results for one in result.found]
    assert {one.code for one in diagnostics} == found
    assert all(one.confidence is Confidence.LIKELY for one in diagnostics)
