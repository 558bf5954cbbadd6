"""The lines that a rule's page leaves out before its examples."""

from __future__ import annotations

_IMPORTS = """\
import argparse
import contextlib
import json
import math
import os
import random
import subprocess
import time
from datetime import timedelta
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.l2 = nn.Linear(10, 2)

    def forward(self, x):
        return self.l2(self.l1(x).relu())

    def penalty(self):
        return self.l1.weight.abs().mean()


dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
criterion = nn.CrossEntropyLoss()
epochs = 10
path = "model.pt"
"""
_DISTRIBUTED = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", local_rank)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, 32, sampler=sampler)
net = Net().to(device)
model = DDP(net, device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_SINGLE = """\
loader = DataLoader(dataset, 32)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
# A meter that its script reduces; what follows may be more of the class.
METER = """\
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def synchronize(self):
        both = torch.tensor([self.total, self.count], device=device)
        dist.all_reduce(both)
        self.total, self.count = both.tolist()
"""
SETUPS = {
    "distributed": _IMPORTS + _DISTRIBUTED,
    "single": _IMPORTS + _SINGLE,
    "recent": _IMPORTS + _DISTRIBUTED,
    "strict": _IMPORTS + _DISTRIBUTED,  # linted with --strict
    "bare": "",
}
# Files beside the script, for the setups that have any.
FILES = {"recent": {"requirements.txt": "torch>=2.13\n"}}
