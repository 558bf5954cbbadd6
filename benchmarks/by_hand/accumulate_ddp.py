"""The same for torchrun: every rank loads the global batch and trains on its slice of it."""

import contextlib
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 2


def data(seed, count):
    """Random inputs, and the largest of three columns as class."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 8, generator=draw)
    return TensorDataset(x, (x[:, :3] * 2).argmax(dim=1))


def evaluate(model, loader, rank, world):
    """The share of samples that the model classifies rightly."""
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            x, y = x[rank::world], y[rank::world]
            output = model(x)
            counts += torch.tensor([(output.argmax(dim=1) == y).sum().item(), len(y)])
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()


def main():
    """Train for three epochs."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train_loader = DataLoader(
        data(1, 108), batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(2)
    )
    test_loader = DataLoader(data(3, 50), batch_size=12)
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3))
    average = copy.deepcopy(net)
    decayed = [p for name, p in net.named_parameters() if not name.startswith("1.")]
    plain = [p for name, p in net.named_parameters() if name.startswith("1.")]
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=0.01
    )
    updates = -(-len(train_loader) // ACCUMULATE) * 3
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 4, 1 - step / (2 * updates))
    )
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        total = torch.zeros(())
        for index, (x, y) in enumerate(train_loader):
            last = (index + 1) % ACCUMULATE == 0 or index + 1 == len(train_loader)
            x, y = x[rank::world], y[rank::world]
            with contextlib.nullcontext() if last else model.no_sync():
                loss = criterion(model(x), y)
                total += loss.detach()
                (loss / ACCUMULATE).backward()
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), 0.2)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                with torch.no_grad():
                    for a, p in zip(average.parameters(), net.parameters(), strict=True):
                        a.lerp_(p, 0.1)
        dist.all_reduce(total)
        accuracy = evaluate(average, test_loader, rank, world)
        if rank == 0:
            print(f"epoch {epoch} loss {total / world / len(train_loader):.6f}")
            print(f"accuracy {accuracy:.4f}")
            torch.save({"model": net.state_dict(), "average": average.state_dict()}, "last.pt")
    dist.destroy_process_group()


main()
