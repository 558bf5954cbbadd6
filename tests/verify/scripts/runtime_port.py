# mypy: ignore-errors
"""The same training in the form that ddpify writes."""

import torch
from single import make_data, make_model
from torch import nn
from torch.utils.data import DataLoader

from ddpify import runtime as dd


def main():
    dd.init()
    model = dd.wrap(make_model())
    loader = dd.shard(DataLoader(make_data(), batch_size=8, shuffle=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = dd.mean(criterion(model(x), y))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * dd.global_batch_size(x)
        scheduler.step()
        print(f"epoch {epoch} loss {total / 50:.6f}")
    dd.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
