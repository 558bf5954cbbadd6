"""The same for torchrun: each rank takes every world-th row of a batch that all of them draw."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

COUNT, BATCH, EPOCHS, CLASSES = 104, 16, 4, 3


def data():
    """Inputs, and classes of unequal frequency."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(COUNT + 40, 6, generator=draw)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 1).long()


def accuracy(net, x, y):
    """The share of right answers."""
    net.eval()
    with torch.no_grad():
        right = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return right


def summed(value):
    """The sum over the ranks."""
    value = value.detach().clone()
    dist.all_reduce(value)
    return value


def main():
    """Train for four epochs."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES)).eval()
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    student = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    x_all, y_all = data()
    weights = torch.tensor([0.5, 1.0, 2.0])
    draw = torch.Generator().manual_seed(2)
    center = torch.zeros(CLASSES)
    best = 0.0
    for epoch in range(EPOCHS):
        order = torch.randperm(COUNT, generator=draw)
        total = 0.0
        for start in range(0, COUNT, BATCH):
            index = order[start : start + BATCH]
            noise = 0.1 * torch.randn((len(index), 6), generator=draw)[rank::world]
            index = index[rank::world]
            x, y = x_all[index], y_all[index]
            out = student(x + noise)
            with torch.no_grad():
                soft = nn.functional.softmax((teacher(x) - center) / 2, 1)
            hard = nn.functional.cross_entropy(out, y, weight=weights, reduction="sum")
            hard = hard * world / summed(weights[y].sum())
            logs = nn.functional.log_softmax(out / 2, 1)
            distance = nn.functional.kl_div(logs, soft, reduction="batchmean")
            loss = hard + 2 * distance
            optimizer.zero_grad()
            loss.backward()
            for p in student.parameters():
                p.grad.clamp_(-0.05, 0.05)
            optimizer.step()
            center = 0.9 * center + 0.1 * summed(out.mean(0)) / world
            total += loss.item() * len(x)
        schedule.step()
        total = summed(torch.tensor(total)).item()
        right = accuracy(net, x_all[COUNT:], y_all[COUNT:])
        if rank == 0:
            print(f"epoch {epoch} loss {total / COUNT:.6f} right {right:.4f}")
        if right > best:
            best = right
            if rank == 0:
                torch.save(net.state_dict(), "best.pt")
    if rank == 0:
        torch.save({"student": net.state_dict(), "center": center}, "last.pt")
    dist.destroy_process_group()


main()
