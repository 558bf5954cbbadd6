"""A right DDP script with what many projects share: helpers, a logger and a scaler object."""

import argparse
import builtins
import os
from collections import defaultdict

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(20, 32)
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


class Average:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    def synchronize(self):
        if not is_dist_avail_and_initialized():
            return
        both = torch.tensor([self.count, self.total], dtype=torch.float64, device="cuda")
        dist.barrier()
        dist.all_reduce(both)
        both = both.tolist()
        self.count, self.total = int(both[0]), both[1]


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **values):
        for name, value in values.items():
            self.meters[name].update(value)

    def synchronize(self):
        for meter in self.meters.values():
            meter.synchronize()

    def log_every(self, iterable, every, header):
        for step, one in enumerate(iterable):
            yield one
            if step % every == 0:
                print(header, step, len(iterable))


class NativeScaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, parameters, clip=None):
        self.scaler.scale(loss).backward()
        if clip is not None:
            self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        self.scaler.step(optimizer)
        self.scaler.update()


def is_dist_avail_and_initialized():
    return dist.is_available() and dist.is_initialized()


def get_rank():
    return dist.get_rank() if is_dist_avail_and_initialized() else 0


def get_world_size():
    return dist.get_world_size() if is_dist_avail_and_initialized() else 1


def is_main_process():
    return get_rank() == 0


def setup_for_distributed(is_master):
    builtin_print = builtins.print

    def print(*args, **kwargs):
        if is_master or kwargs.pop("force", False):
            builtin_print(*args, **kwargs)

    builtins.print = print


def init_distributed_mode(args):
    if "RANK" not in os.environ:
        args.distributed = False
        return
    args.rank = int(os.environ["RANK"])
    args.gpu = int(os.environ["LOCAL_RANK"])
    args.distributed = True
    torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl")
    dist.barrier()
    setup_for_distributed(args.rank == 0)


def train_one_epoch(model, model_without_ddp, criterion, loader, optimizer, device, epoch, scaler):
    model.train()
    logger = MetricLogger()
    for x, y in logger.log_every(loader, 20, f"epoch {epoch}"):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler(loss, optimizer, model.parameters(), clip=1.0)
        if epoch >= 0:
            logger.update(loss=loss.item())
    logger.synchronize()
    return {name: meter.total / meter.count for name, meter in logger.meters.items()}


def main(args):
    init_distributed_mode(args)
    device = torch.device("cuda", args.gpu) if args.distributed else torch.device("cuda")
    torch.manual_seed(args.seed)
    rows = torch.linspace(0, 1, 20 * 512).reshape(512, 20)
    data = TensorDataset(rows, (rows.sum(1) > 10).long())
    if args.distributed:
        sampler = DistributedSampler(data)
    else:
        sampler = torch.utils.data.RandomSampler(data)
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    model = Net().to(device)
    model_without_ddp = model
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[args.gpu])
        model_without_ddp = model.module
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model_without_ddp.parameters(), lr=args.lr)
    scaler = NativeScaler()
    if args.resume:
        state = torch.load(args.resume, map_location=device)
        model_without_ddp.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for epoch in range(args.epochs):
        if args.distributed:
            loader.sampler.set_epoch(epoch)
        stats = train_one_epoch(
            model, model_without_ddp, criterion, loader, optimizer, device, epoch, scaler
        )
        if args.output and is_main_process():
            state = {"model": model_without_ddp.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, os.path.join(args.output, "checkpoint.pth"))
        print(epoch, stats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="")
    parser.add_argument("--output", default="")
    main(parser.parse_args())
