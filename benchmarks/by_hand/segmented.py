"""A segmentation with an overlap loss, a rate by iteration, averaged weights and a best model."""

import json

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

CLASSES, EPOCHS, BATCH = 3, 3, 8


def pictures(seed, count):
    """Random pictures; a pixel's class follows from its colours."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, 6, 6, generator=draw)
    return TensorDataset(x, (x[:, 0] > 0.3).long() + (x[:, 1] > 0.8).long())


def overlap(scores, y):
    """One minus the mean over the classes of the overlap, over all pixels of the batch."""
    p = scores.softmax(1)
    wanted = nn.functional.one_hot(y, CLASSES).permute(0, 3, 1, 2)
    both, each = (p * wanted).sum((0, 2, 3)), (p + wanted).sum((0, 2, 3))
    return 1 - (2 * both / each).mean()


def evaluate(net, loader):
    """The mean over the classes of intersection over union."""
    net.eval()
    table = torch.zeros(CLASSES, CLASSES)
    with torch.no_grad():
        for x, y in loader:
            at = y.flatten() * CLASSES + net(x).argmax(1).flatten()
            table += torch.bincount(at, minlength=CLASSES**2).view(CLASSES, CLASSES)
    net.train()
    union = table.sum(0) + table.sum(1) - table.diag()
    return (table.diag() / union.clamp(min=1)).mean().item()


def main():
    """Train for three epochs."""
    torch.manual_seed(0)
    train = DataLoader(pictures(1, 48), batch_size=BATCH, shuffle=True)
    valid = DataLoader(pictures(2, 12), batch_size=4)
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(), nn.Conv2d(6, CLASSES, 1)
    )
    head = [*net[3].parameters()]
    body = [p for layer in net[:3] for p in layer.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": 0.01}, {"params": head, "lr": 0.05, "weight_decay": 0.0}]
    )
    steps = EPOCHS * len(train)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: (1 - at / steps) ** 0.9)
    average = AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    frequency = torch.zeros(CLASSES)
    best, log = -1.0, []
    for epoch in range(EPOCHS):
        total = 0.0
        for x, y in train:
            if torch.rand(()) < 0.5:
                x, y = x.flip(-1), y.flip(-1)
            frequency += torch.bincount(y.flatten(), minlength=CLASSES)
            weight = frequency.sum() / (frequency + 1)
            scores = net(x)
            loss = nn.functional.cross_entropy(scores, y, weight) + overlap(scores, y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(net)
            total += loss.item()
        score, averaged = evaluate(net, valid), evaluate(average, valid)
        log.append({"epoch": epoch, "loss": total / len(train), "score": score})
        print(f"epoch {epoch}: loss {total / len(train):.6f} score {score:.6f} {averaged:.6f}")
        if averaged > best:
            best = averaged
            torch.save(average.module.state_dict(), "best.pt")
    with open("log.json", "w") as file:
        json.dump(log, file)


main()
