"""The process group, and what the ranks share."""

import os
from collections import defaultdict

import torch
import torch.distributed as dist


def start(args):
    if "RANK" not in os.environ:
        args.distributed = False
        return
    args.distributed, args.gpu = True, int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl")


def is_first():
    return not dist.is_initialized() or dist.get_rank() == 0


def save(*args):
    if is_first():
        torch.save(*args)


def mean_of(value):
    if dist.is_initialized():
        dist.all_reduce(value)
        value /= dist.get_world_size()
    return value


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def synchronize(self):
        both = torch.tensor([self.total, self.count], device="cuda")
        dist.all_reduce(both)
        self.total, self.count = both.tolist()

    @property
    def mean(self):
        return self.total / self.count


class Meters:
    def __init__(self):
        self.kept = defaultdict(Meter)

    def update(self, **values):
        for name, value in values.items():
            self.kept[name].update(value)

    def synchronize(self):
        for meter in self.kept.values():
            meter.synchronize()

    def watch(self, loader):
        for i, batch in enumerate(loader):
            yield batch
            if i % 100 == 0:
                print(i)
