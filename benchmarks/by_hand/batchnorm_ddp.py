"""The same for torchrun on GPUs, with SyncBatchNorm."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def data(seed, count):
    """Small random images, and the brightest of three rows as class."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, 6, 6, generator=draw)
    return TensorDataset(x, x[:, 0, :3].sum(dim=2).argmax(dim=1))


def build():
    """The network."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)
    )


def main():
    """Train for three epochs."""
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    loader = DataLoader(
        data(1, 60), batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(2)
    )
    net = build().to(device)
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    model = DistributedDataParallel(net, device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    noise = torch.Generator().manual_seed(3)
    center = torch.zeros(3, device=device)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        model.train()
        for x, y in loader:
            x = x + 0.1 * torch.randn(x.shape, generator=noise)
            x, y = x[rank::world].to(device), y[rank::world].to(device)
            optimizer.zero_grad()
            output = model(x)
            loss = criterion(output, y) + 0.1 * ((output - center) ** 2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean = output.detach().mean(dim=0)
            dist.all_reduce(mean)
            center.mul_(0.9).add_(mean / world, alpha=0.1)
        scheduler.step()
        if rank == 0:
            print(f"epoch {epoch} center {center.norm():.6f}")
            torch.save(net.state_dict(), "last.pt")
    dist.destroy_process_group()


main()
