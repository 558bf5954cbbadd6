"""A trainer with validation, a rate that follows a plateau, early stopping and the best model."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def data(seed, count):
    """Random inputs, and a product of two columns as target."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 5, generator=draw)
    return TensorDataset(x, x[:, :1] * x[:, 1:2])


class Trainer:
    """Trains until the validation no longer improves."""

    def __init__(self):
        torch.manual_seed(0)
        self.train_loader = DataLoader(data(1, 96), batch_size=12, shuffle=True)
        self.valid_loader = DataLoader(data(2, 40), batch_size=8)
        self.model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, factor=0.5, patience=0, threshold=0.05
        )
        self.criterion = nn.MSELoss()
        self.best, self.waited = float("inf"), 0

    def train_epoch(self):
        """One pass; the mean loss."""
        self.model.train()
        total = 0.0
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.train_loader)

    def validate(self):
        """The mean loss over the validation's samples."""
        self.model.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in self.valid_loader:
                total += self.criterion(self.model(x), y).item() * len(x)
        return total / len(self.valid_loader.dataset)

    def fit(self):
        """Up to five epochs."""
        for epoch in range(5):
            train, valid = self.train_epoch(), self.validate()
            print(f"epoch {epoch} train {train:.6f} valid {valid:.6f}")
            self.scheduler.step(valid)
            if valid < self.best:
                self.best, self.waited = valid, 0
                torch.save({"model": self.model.state_dict(), "epoch": epoch}, "best.pt")
            else:
                self.waited += 1
            if self.waited >= 2:
                break


Trainer().fit()
