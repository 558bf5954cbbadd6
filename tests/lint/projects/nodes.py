"""A right script that starts the ranks of each node: a rank is made of its node's number."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torchvision
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter
from torchvision.transforms import v2


class Mean:
    def __init__(self):
        self.total, self.count, self.value = 0.0, 0, 0.0

    def add(self, number, count):
        self.total += number * count
        self.count += count
        self.value = self.total / self.count

    def reduce(self):
        both = torch.tensor([self.total, self.count], device="cuda")
        dist.all_reduce(both)
        self.total, self.count = both.tolist()
        self.value = self.total / self.count


def seed_all(seed):
    torch.manual_seed(seed)


def clip(parameters):
    nn.utils.clip_grad_norm_(parameters, 1.0)


def worker(gpu, gpus, args):
    args.rank = args.node * gpus + gpu
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", rank=args.rank, world_size=gpus * args.nodes)
    seed_all(args.seed + args.rank)
    model = torchvision.models.resnet18().cuda(gpu)
    model = DistributedDataParallel(
        nn.SyncBatchNorm.convert_sync_batchnorm(model), device_ids=[gpu]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    scaler = torch.amp.GradScaler("cuda")
    data = torchvision.datasets.ImageFolder("a", v2.RandomCrop(32))
    rest = torchvision.datasets.ImageFolder("b")
    sampler = DistributedSampler(data, num_replicas=gpus * args.nodes, rank=args.rank)
    options = {"batch_size": 64, "num_workers": 4}
    loader = DataLoader(data, sampler=sampler, **options)
    held_out = DistributedSampler(rest, shuffle=False, drop_last=True)
    tests = DataLoader(rest, sampler=held_out, **options)
    writer = SummaryWriter("log") if args.rank == 0 else None
    for epoch in range(90):
        sampler.set_epoch(epoch)
        train(loader, model, optimizer, scaler, writer, gpu)
        loss = validate(tests, model, gpu)
        plateau.step(loss)
        if args.rank == 0:
            torch.save(model.module.state_dict(), os.path.join("out", f"{epoch}.pt"))


def train(loader, model, optimizer, scaler, writer, gpu):
    mean = Mean()
    for x, y in loader:
        x, y = x.cuda(gpu), y.cuda(gpu)
        with torch.autocast("cuda"):
            loss = nn.functional.cross_entropy(model(x), y)
        mean.add(loss.item(), len(x))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip(model.parameters())
        scaler.step(optimizer)
        scaler.update()
    mean.reduce()
    if writer is not None and mean.count > 0:
        writer.add_scalar("loss", mean.value)


@torch.no_grad()
def validate(loader, model, gpu):
    mean = Mean()
    for x, y in loader:
        x, y = x.cuda(gpu), y.cuda(gpu)
        mean.add(nn.functional.cross_entropy(model(x), y).item(), len(x))
    mean.reduce()
    return mean.value


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    count = torch.cuda.device_count()
    mp.spawn(worker, nprocs=count, args=(count, parser.parse_args()))
