"""A student learns from a teacher; batches are indexed by hand, gradients clamped by hand."""

import torch
from torch import nn

COUNT, BATCH, EPOCHS, CLASSES = 104, 16, 4, 3


def data():
    """Inputs, and classes of unequal frequency."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(COUNT + 40, 6, generator=draw)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 1).long()


def accuracy(net, x, y):
    """The share of right answers."""
    net.eval()
    with torch.no_grad():
        right = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return right


def main():
    """Train for four epochs."""
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES)).eval()
    student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    x_all, y_all = data()
    weights = torch.tensor([0.5, 1.0, 2.0])
    draw = torch.Generator().manual_seed(2)
    center = torch.zeros(CLASSES)
    best = 0.0
    for epoch in range(EPOCHS):
        order = torch.randperm(COUNT, generator=draw)
        total = 0.0
        for start in range(0, COUNT, BATCH):
            index = order[start : start + BATCH]
            x, y = x_all[index], y_all[index]
            noise = 0.1 * torch.randn(x.shape, generator=draw)
            out = student(x + noise)
            with torch.no_grad():
                soft = nn.functional.softmax((teacher(x) - center) / 2, 1)
            hard = nn.functional.cross_entropy(out, y, weight=weights)
            logs = nn.functional.log_softmax(out / 2, 1)
            distance = nn.functional.kl_div(logs, soft, reduction="batchmean")
            loss = hard + 2 * distance
            optimizer.zero_grad()
            loss.backward()
            for p in student.parameters():
                p.grad.clamp_(-0.05, 0.05)
            optimizer.step()
            center = 0.9 * center + 0.1 * out.detach().mean(0)
            total += loss.item() * len(x)
        schedule.step()
        right = accuracy(student, x_all[COUNT:], y_all[COUNT:])
        print(f"epoch {epoch} loss {total / COUNT:.6f} right {right:.4f}")
        if right > best:
            best = right
            torch.save(student.state_dict(), "best.pt")
    torch.save({"student": student.state_dict(), "center": center}, "last.pt")


main()
