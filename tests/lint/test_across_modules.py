"""Pitfalls in the helpers of a script, each in a file of its own that is right without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.test_projects import Plant, found

DATA = """
import random
import torch
from torch.utils.data import DataLoader, Dataset, random_split
from torch.utils.data.distributed import DistributedSampler

class Lines(Dataset):
    def __init__(self, lines):
        self.lines = sorted(lines)
    def __len__(self):
        return len(self.lines)
    def __getitem__(self, index):
        return torch.tensor([float(x) for x in self.lines[index].split()]), index % 3

def split(path):
    whole = Lines(open(path).read().splitlines())
    return random_split(whole, [80, 20])

def loaders(path):
    train, val = split(path)
    sampler = DistributedSampler(train)
    rest = DistributedSampler(val, shuffle=False)
    return DataLoader(train, 64, sampler=sampler), DataLoader(val, 64, sampler=rest)
"""
NET = """
import torch
import torch.distributed as dist
import torch.nn as nn

class Net(nn.Module):
    def __init__(self, gpu):
        super().__init__()
        self.body = nn.Linear(8, 16).to(f"cuda:{gpu}")
        self.head = nn.Linear(16, 3).to(f"cuda:{gpu}")
    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.head(x)

def freeze(part):
    for p in part.parameters():
        p.requires_grad = False
"""
BUILD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from net import Net, freeze

def build(gpu):
    net = Net(gpu)
    return DDP(net, device_ids=[gpu])

def optimizer_of(model, lr, kind, rank):
    settings = {"lr": lr, "weight_decay": 0.01}
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=lr)
    return torch.optim.SGD(model.parameters(), **settings)

def warmup(optimizer, rank):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
"""
REPORT = """
import torch
import torch.distributed as dist

def append(path, epoch, loss):
    with open(path, "a") as f:
        f.write(f"{epoch} {loss}\\n")

def mean_of(loader, model, criterion, device):
    total, count = torch.zeros(1, device=device), 0
    batches = loader.__iter__()
    for _ in range(len(loader)):
        x, y = batches.__next__()
        with torch.no_grad():
            total += criterion(model(x.to(device)), y.to(device))
        count += 1
    dist.all_reduce(total)
    return total.item() / count / dist.get_world_size()
"""
TRAIN = """
import argparse
import os
import time
import torch
import torch.distributed as dist
from build import build, optimizer_of, warmup
from data import loaders
from net import freeze
from report import append, mean_of

def main(args):
    torch.manual_seed(3)
    dist.init_process_group("nccl")
    rank, gpu = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    device = torch.device("cuda", gpu)
    train, val = loaders(args.data)
    model = build(gpu)
    optimizer = optimizer_of(model, args.lr, args.kind, rank)
    scheduler = warmup(optimizer, rank)
    criterion = torch.nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        train.sampler.set_epoch(epoch)
        for x, y in train:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            scheduler.step()
        loss = mean_of(val, model, criterion, device)
        if rank == 0:
            append(args.out, epoch, loss)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="lines.txt")
    parser.add_argument("--out", default="losses.txt")
    parser.add_argument("--kind", default="sgd")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args())
"""
FILES = {"data.py": DATA, "net.py": NET, "build.py": BUILD, "report.py": REPORT, "train.py": TRAIN}
SEED = "    torch.manual_seed(3)\n"
UNTIL_SPLIT = TRAIN[TRAIN.index(SEED) : TRAIN.index("    model = build")]
LATE_SEED = UNTIL_SPLIT.replace(SEED, "") + SEED
PLANTS = [
    Plant("a split without a seed", "DDP107", "train.py", SEED, ""),
    Plant("a split before the seed", "DDP107", "train.py", UNTIL_SPLIT, LATE_SEED),
    Plant("a seed of the rank before a split", "DDP602", "train.py",
          "manual_seed(3)", "manual_seed(3 + int(os.environ['RANK']))"),
    Plant("a shuffle of each process", "DDP108", "data.py",
          "sorted(lines)\n", "sorted(lines)\n        random.shuffle(self.lines)\n"),
    Plant("a shuffle before the data set", "DDP108", "data.py",
          "    whole = Lines(open(path).read().splitlines())\n",
          "    lines = open(path).readlines()\n    random.shuffle(lines)\n"
          "    whole = Lines(lines)\n"),
    Plant("a collective of one rank in a forward", "DDP401", "net.py",
          "        return self.head(x)",
          "        if dist.get_rank() == 0:\n            dist.broadcast(x.mean(), 0)\n"
          "        return self.head(x)"),
    Plant("a collective by the batch in a forward", "DDP401 DDP402", "net.py",
          "        return self.head(x)",
          "        if x.isnan().any():\n            dist.barrier()\n        return self.head(x)"),
    Plant("a number for all GPUs", "DDP201", "build.py", "Net(gpu)", "Net(0)"),
    Plant("a part frozen by a helper", "DDP306", "train.py", "    scheduler = w",
          "    freeze(model.module.body)\n    scheduler = w"),
    Plant("a rate by rank under an option", "DDP406", "build.py",
          "parameters(), lr=lr)", "parameters(), lr=lr * (rank + 1))"),
    Plant("a rate by rank among settings", "DDP406", "build.py",
          '{"lr": lr,', '{"lr": lr / (rank + 1),'),
    Plant("a decay by rank", "DDP406", "build.py",
          '"weight_decay": 0.01', '"weight_decay": 0.01 * rank'),
    Plant("a schedule by rank", "DDP406", "build.py", "step / 100", "step / (rank + 1)"),
    Plant("all ranks write, by a helper", "DDP501", "train.py",
          "        if rank == 0:\n            append", "        if loss >= 0:\n            append"),
    Plant("files by each rank's clock", "DDP507", "train.py",
          "        if rank == 0:\n            append(args.out,",
          '        append(f"{args.out}-{time.time()}",'),
    Plant("a mean of one rank, by an iterator", "DDP405", "report.py",
          "    dist.all_reduce(total)\n    return total.item() / count / dist.get_world_size()",
          "    return total.item() / count"),
    Plant("no sampler", "DDP101", "data.py", "64, sampler=sampler", "64, shuffle=True"),
]  # fmt: skip


def test_the_project_is_right(tmp_path: Path) -> None:
    assert not found(tmp_path, FILES)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda one: one.name)
def test_a_plant_is_found(plant: Plant, tmp_path: Path) -> None:
    assert FILES[plant.file].count(plant.old) == 1
    text = FILES[plant.file].replace(plant.old, plant.new)
    assert found(tmp_path, {**FILES, plant.file: text}) & {*plant.codes.split()}
