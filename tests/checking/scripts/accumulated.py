# mypy: ignore-errors
"""Gradient accumulation with no_sync, and early stopping that the ranks agree on."""

import contextlib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Images(Dataset):
    def __init__(self):
        self.images = np.random.RandomState(0).rand(40, 1, 6, 6).astype("float32")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        noise = 0.01 * torch.randn(1, 6, 6)
        return torch.from_numpy(self.images[index]) + noise, index % 2


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(100 + rank)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
    dataset = Images()
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=True, seed=3)
    loader = DataLoader(dataset, 5, sampler=sampler, drop_last=True)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader):
            last = number % 2 == 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.cross_entropy(model(x), y) / 2
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        scheduler.step()
        stop = loss.detach().clone()
        dist.all_reduce(stop)
        if rank == 0:
            print("epoch", epoch, "loss", stop.item() / world, flush=True)
        if stop.item() / world < 1e-4:
            break
    dist.barrier()
    if rank == 0:
        torch.save(
            {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "c.pt"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
