"""Early stopping by an object with the best weights in it, and a rate that follows a plateau."""

import copy
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

EPOCHS = 16


class Stopper:
    def __init__(self, patience):
        self.patience, self.waited, self.best, self.weights = patience, 0, None, None

    def ask(self, value, model):
        if self.best is None or value < self.best - 1e-4:
            self.best, self.waited = value, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience


class Trainer:
    def __init__(self, model, loaders):
        self.model = model
        self.train_loader, self.valid_loader = loaders
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=1)
        self.stopper = Stopper(6)
        self.history = defaultdict(list)
        self.steps = 0

    def train(self):
        self.model.train()
        for x, y in self.train_loader:
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            self.history["train"].append(loss.item())

    def validate(self):
        self.model.eval()
        total = count = 0
        with torch.no_grad():
            for x, y in self.valid_loader:
                total += F.cross_entropy(self.model(x), y, reduction="sum").item()
                count += len(y)
        return total / count

    def fit(self):
        for epoch in range(EPOCHS):
            self.train()
            value = self.validate()
            self.history["valid"].append(value)
            self.scheduler.step(value)
            rate = self.optimizer.param_groups[0]["lr"]
            print(f"epoch {epoch} steps {self.steps} valid {value:.8f} rate {rate:.6f}")
            if self.stopper.ask(value, self.model):
                print("stopped at", epoch)
                break


def main():
    torch.manual_seed(9)
    x = torch.randn(60, 6)
    data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
    train, valid = random_split(data, [43, 17])
    loaders = DataLoader(train, batch_size=8, shuffle=True), DataLoader(valid, batch_size=8)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    trainer = Trainer(model, loaders)
    trainer.fit()
    torch.save({"last": model.state_dict(), "best": trainer.stopper.weights,
                "history": dict(trainer.history), "value": trainer.stopper.best}, "stopped.pt")


main()
