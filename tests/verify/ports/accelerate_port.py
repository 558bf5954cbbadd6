# mypy: ignore-errors
"""The two-moons classifier of fixtures/functions with Accelerate."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from train import Net, two_moons


def train(args, accelerator, model, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(data), target)
        accelerator.backward(loss)
        optimizer.step()
        mean = accelerator.reduce(loss.detach(), "mean")
        if batch_idx % args.log_interval == 0:
            share = 100.0 * batch_idx / len(loader)
            done = f"[{batch_idx * args.batch_size}/{len(loader.dataset)} ({share:.0f}%)]"
            accelerator.print(f"Train Epoch: {epoch} {done}\tLoss: {mean.item():.6f}")


def test(accelerator, model, loader):
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for data, target in loader:
            output, target = accelerator.gather_for_metrics((model(data), target))
            test_loss += nn.functional.nll_loss(output, target, reduction="sum").item()
            correct += (output.argmax(dim=1) == target).sum().item()
    total = len(loader.dataset)
    accuracy = f"{correct}/{total} ({100.0 * correct / total:.0f}%)"
    accelerator.print(f"\nTest set: Average loss: {test_loss / total:.4f}, Accuracy: {accuracy}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True)
    )
    torch.manual_seed(1)
    train_loader = DataLoader(two_moons(167, seed=1), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(two_moons(87, seed=2), batch_size=40)
    model = Net(24, p=0.1)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    model, optimizer, train_loader, test_loader = accelerator.prepare(
        model, optimizer, train_loader, test_loader
    )
    scheduler = StepLR(optimizer.optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, accelerator, model, train_loader, optimizer, epoch)
        test(accelerator, model, test_loader)
        scheduler.step()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "moons.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
