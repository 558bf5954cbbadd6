# mypy: ignore-errors
"""Train a small classifier on one process."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))


def make_data():
    made = torch.Generator().manual_seed(1)
    x = torch.randn(50, 6, generator=made)
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 1).long())


def main():
    model = make_model()
    loader = DataLoader(make_data(), batch_size=8, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(x)
        scheduler.step()
        print(f"epoch {epoch} loss {total / 50:.6f}")
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
