"""A convolutional network with BatchNorm, weighted classes, a noisy input and a queue of means."""

import torch
from torch import nn
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
    torch.manual_seed(0)
    loader = DataLoader(
        data(1, 60), batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(2)
    )
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    noise = torch.Generator().manual_seed(3)
    center = torch.zeros(3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        model.train()
        for x, y in loader:
            x = x + 0.1 * torch.randn(x.shape, generator=noise)
            optimizer.zero_grad()
            output = model(x)
            loss = criterion(output, y) + 0.1 * ((output - center) ** 2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            center.mul_(0.9).add_(output.detach().mean(dim=0), alpha=0.1)
        scheduler.step()
        print(f"epoch {epoch} center {center.norm():.6f}")
        torch.save(model.state_dict(), "last.pt")


main()
