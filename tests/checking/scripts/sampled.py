# mypy: ignore-errors
"""Training by hand with DistributedDataParallel and DistributedSampler, as PyTorch's guides do."""

import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.LayerNorm(16)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(16, 1)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(80, 6, generator=generator)
    return random_split(TensorDataset(x, x.sum(1, keepdim=True)), [64, 16], generator=generator)


def evaluate(model, loader):
    model.eval()
    total = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            total += torch.tensor([nn.functional.mse_loss(model(x), y).item() * len(x), len(x)])
    dist.all_reduce(total)
    model.train()
    return (total[0] / total[1]).item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    train_set, test_set = data()
    net = Net()
    model = DistributedDataParallel(net)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size=8, sampler=sampler)
    test_loader = DataLoader(test_set, batch_size=8, sampler=DistributedSampler(test_set))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    best = float("inf")
    for epoch in range(3):
        sampler.set_epoch(epoch)
        total = torch.zeros(())
        for number, (x, y) in enumerate(loader):
            if number == 100:
                break
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
        score = evaluate(model, test_loader)
        scheduler.step(score)
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / world / len(loader):.4f} test {score:.4f}")
            os.makedirs("out", exist_ok=True)
            if score < best:
                best = score
                torch.save(model.module.state_dict(), "out/best.pt")
        dist.barrier()
    print(f"rank {rank} ends after {random.Random(rank).random():.3f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
