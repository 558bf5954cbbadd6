"""A class that keeps averages in a dictionary, and puts them into the model to evaluate it."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.updates = 0
        self.backup = {}
        self.shadow = {name: p.data.clone() for name, p in model.named_parameters()}

    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, p in model.named_parameters():
            self.shadow[name].mul_(decay).add_(p.data, alpha=1 - decay)

    def apply(self, model):
        for name, p in model.named_parameters():
            self.backup[name] = p.data.clone()
            p.data.copy_(self.shadow[name])

    def restore(self, model):
        for name, p in model.named_parameters():
            p.data.copy_(self.backup[name])
        self.backup = {}


def main():
    torch.manual_seed(1)
    x = torch.randn(36, 5)
    y = (x[:, 0] > x[:, 1]).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 2))
    ema = EMA(net, 0.95)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    warmup = torch.optim.lr_scheduler.LambdaLR(sgd, lambda step: min(1.0, (step + 1) / 20))
    criterion = nn.CrossEntropyLoss()
    history = []
    for epoch in range(EPOCHS):
        running = 0.0
        for inputs, targets in loader:
            loss = criterion(net(inputs), targets)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            warmup.step()
            ema.update(net)
            running += loss.item() * len(targets)
        ema.apply(net)
        with torch.no_grad():
            right = (net(x).argmax(1) == y).sum().item()
        ema.restore(net)
        history.append([running / len(x), right])
        print(f"epoch {epoch} loss {running / len(x):.8f} right {right} updates {ema.updates}")
    torch.save([net.state_dict(), ema.shadow, sgd.state_dict(), warmup.state_dict(), history], "e.pt")


main()
