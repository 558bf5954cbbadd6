# mypy: ignore-errors
"""The same training on several processes, written by hand with DistributedDataParallel."""

import torch
import torch.distributed as dist
from single import make_data, make_model
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(make_model())
    loader = DataLoader(make_data(), batch_size=8, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    criterion = nn.CrossEntropyLoss(reduction="sum")
    for epoch in range(2):
        total = torch.zeros(())
        for x, y in loader:
            optimizer.zero_grad()
            count = len(x)
            x, y = x[rank::world], y[rank::world]
            loss = criterion(model(x), y)
            (loss * world / count).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
        scheduler.step()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / 50:.6f}")
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
