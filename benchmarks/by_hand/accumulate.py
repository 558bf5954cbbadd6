"""Weight-decay groups, warm-up, accumulation, an average of the weights, checkpoints."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 2


def data(seed, count):
    """Random inputs, and the largest of three columns as class."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 8, generator=draw)
    return TensorDataset(x, (x[:, :3] * 2).argmax(dim=1))


def evaluate(model, loader):
    """The share of samples that the model classifies rightly."""
    model.eval()
    total = correct = 0
    with torch.no_grad():
        for x, y in loader:
            output = model(x)
            correct += (output.argmax(dim=1) == y).sum().item()
            total += len(y)
    model.train()
    return correct / total


def main():
    """Train for three epochs."""
    torch.manual_seed(0)
    train_loader = DataLoader(
        data(1, 108), batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(2)
    )
    test_loader = DataLoader(data(3, 50), batch_size=12)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3))
    average = copy.deepcopy(model)
    decayed = [p for name, p in model.named_parameters() if not name.startswith("1.")]
    plain = [p for name, p in model.named_parameters() if name.startswith("1.")]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=0.01
    )
    updates = -(-len(train_loader) // ACCUMULATE) * 3
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 4, 1 - step / (2 * updates))
    )
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        total = 0.0
        for index, (x, y) in enumerate(train_loader):
            loss = criterion(model(x), y)
            total += loss.item()
            (loss / ACCUMULATE).backward()
            if (index + 1) % ACCUMULATE == 0 or index + 1 == len(train_loader):
                nn.utils.clip_grad_norm_(model.parameters(), 0.2)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                with torch.no_grad():
                    for a, p in zip(average.parameters(), model.parameters(), strict=True):
                        a.lerp_(p, 0.1)
        print(f"epoch {epoch} loss {total / len(train_loader):.6f}")
        print(f"accuracy {evaluate(average, test_loader):.4f}")
        torch.save({"model": model.state_dict(), "average": average.state_dict()}, "last.pt")


main()
