# mypy: ignore-errors
"""Mixed precision with a gradient scaler, accumulation under no_sync, BatchNorm, and workers."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(48, 3, 8, 8), torch.randint(0, 4, (48,)))
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                        nn.Linear(288, 4))  # fmt: skip
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=torch.cuda.is_available())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, drop_last=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader):
            last = number % 2 == 1 or number + 1 == len(loader)
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = nn.functional.cross_entropy(model(x), y) / 2
                scaler.scale(loss).backward()
            if last:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        with open(f"log-rank{rank}.txt", "a") as log:
            log.write(f"[rank {rank}] epoch {epoch}: {loss.item():.4f}\n")
        if rank == 0:
            torch.save(model.module.state_dict(), "model.pt")
        dist.barrier()
    os.remove(f"log-rank{rank}.txt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
