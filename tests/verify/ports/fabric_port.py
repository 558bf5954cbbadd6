# mypy: ignore-errors
"""The two-moons classifier of fixtures/functions with Lightning Fabric."""

import argparse
import os

import torch
from lightning_fabric import Fabric
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from train import Net, two_moons


def train(args, fabric, model, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(data), target)
        fabric.backward(loss)
        optimizer.step()
        mean = fabric.all_reduce(loss.detach())
        if batch_idx % args.log_interval == 0:
            share = 100.0 * batch_idx / len(loader)
            done = f"[{batch_idx * args.batch_size}/{len(loader.dataset)} ({share:.0f}%)]"
            fabric.print(f"Train Epoch: {epoch} {done}\tLoss: {mean.item():.6f}")


def test(fabric, model, loader):
    """On all of the test data, on every rank."""
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for points, target in loader:
            output = model(points)
            test_loss += nn.functional.nll_loss(output, target, reduction="sum").item()
            correct += (output.argmax(dim=1) == target).sum().item()
    total = len(loader.dataset)
    accuracy = f"{correct}/{total} ({100.0 * correct / total:.0f}%)"
    fabric.print(f"\nTest set: Average loss: {test_loss / total:.4f}, Accuracy: {accuracy}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()
    world = int(os.environ["WORLD_SIZE"])
    fabric = Fabric(accelerator="cpu", devices=world, strategy="ddp")
    fabric.launch()
    torch.manual_seed(1)
    train_loader = DataLoader(
        two_moons(167, seed=1), batch_size=args.batch_size // world, shuffle=True
    )
    test_loader = DataLoader(two_moons(87, seed=2), batch_size=40)
    model = Net(24, p=0.1)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    model, optimizer = fabric.setup(model, optimizer)
    train_loader = fabric.setup_dataloaders(train_loader)
    scheduler = StepLR(optimizer.optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, fabric, model, train_loader, optimizer, epoch)
        test(fabric, model, test_loader)
        scheduler.step()
    if fabric.is_global_zero:
        torch.save(model.module.state_dict(), "moons.pt")


if __name__ == "__main__":
    main()
