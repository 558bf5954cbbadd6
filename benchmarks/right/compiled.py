# mypy: ignore-errors
"""A compiled model, dropout with another stream on each rank, and a shared early stop."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    data = TensorDataset(torch.randn(48, 6), torch.randn(48, 1))
    net = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.1), nn.Linear(16, 1))
    torch.manual_seed(2 + rank)
    model = DistributedDataParallel(torch.compile(net, backend="eager"))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    sampler = DistributedSampler(data, seed=5)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2)
    best = float("inf")
    for epoch in range(4):
        sampler.set_epoch(epoch)
        total = torch.zeros(2, dtype=torch.float64)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(x), len(x)])
        dist.all_reduce(total)
        mean = (total[0] / total[1]).item()
        plateau.step(mean)
        if rank == 0:
            print(f"epoch {epoch}: {mean:.4f}")
        if mean > best:
            break
        best = mean
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
