"""A right DDP script in functions: everything goes through arguments and results."""

import argparse
import os
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, random_split
from torch.utils.data.distributed import DistributedSampler


class Rows(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(count, 3, 8, 8, generator=generator)
        self.y = torch.randint(10, (count,), generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def setup():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    return dist.get_rank(), local_rank, dist.get_world_size()


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def build_loaders(args, world_size):
    data = Rows(1000)
    train, val = random_split(data, [800, 200], generator=torch.Generator().manual_seed(1))
    sampler = DistributedSampler(train, seed=args.seed)
    val_sampler = DistributedSampler(val, shuffle=False)
    batch = args.batch_size // world_size
    loader = DataLoader(train, batch_size=batch, sampler=sampler, num_workers=2, drop_last=True)
    val_loader = DataLoader(val, batch_size=batch, sampler=val_sampler)
    return loader, val_loader, sampler


def build_model(local_rank, device):
    net = Net().to(device)
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    return DDP(net, device_ids=[local_rank])


def train_epoch(model, loader, optimizer, schedule, scaler, criterion, device):
    model.train()
    total = torch.zeros(1, device=device)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / len(loader) / dist.get_world_size()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros(2, device=device)
    for x, y in loader:
        found = model(x.to(device)).argmax(1)
        hits[0] += (found == y.to(device)).sum()
        hits[1] += len(y)
    dist.all_reduce(hits)
    return (hits[0] / hits[1]).item()


def save(model, optimizer, epoch, path):
    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="runs")
    parser.add_argument("--resume", default="")
    args = parser.parse_args()

    rank, local_rank, world_size = setup()
    device = torch.device("cuda", local_rank)
    seed_all(args.seed)
    if rank == 0:
        os.makedirs(args.out, exist_ok=True)
    dist.barrier()

    loader, val_loader, sampler = build_loaders(args, world_size)
    model = build_model(local_rank, device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    steps = args.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)
    scaler = torch.amp.GradScaler("cuda")
    start = 0
    if args.resume:
        state = torch.load(args.resume, map_location=device)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1

    best = 0.0
    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer, schedule, scaler, criterion, device)
        accuracy = evaluate(model, val_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f} accuracy {accuracy:.4f}")
            if accuracy > best:
                save(model, optimizer, epoch, os.path.join(args.out, "best.pt"))
        best = max(best, accuracy)
        if loss > 1e6:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
