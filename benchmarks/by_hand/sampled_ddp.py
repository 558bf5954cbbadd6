"""The same for torchrun with DistributedSampler, as tutorials show it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def data(seed, count):
    """Random inputs, and a product of two columns as target."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 5, generator=draw)
    return TensorDataset(x, x[:, :1] * x[:, 1:2])


class Trainer:
    """Trains until the validation no longer improves."""

    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        train = data(1, 96)
        self.sampler = DistributedSampler(train, shuffle=True)
        self.train_loader = DataLoader(train, batch_size=12 // self.world, sampler=self.sampler)
        valid = data(2, 40)
        self.valid_loader = DataLoader(
            valid, batch_size=8 // self.world, sampler=DistributedSampler(valid, shuffle=False)
        )
        net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
        self.model = DistributedDataParallel(net)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, factor=0.5, patience=0, threshold=0.05
        )
        self.criterion = nn.MSELoss()
        self.best, self.waited = float("inf"), 0

    def mean(self, total, count):
        """A quotient of sums over the ranks."""
        both = torch.tensor([float(total), float(count)])
        dist.all_reduce(both)
        return (both[0] / both[1]).item()

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
        return self.mean(total, len(self.train_loader))

    def validate(self):
        """The mean loss over the validation's samples."""
        self.model.eval()
        total = count = 0.0
        with torch.no_grad():
            for x, y in self.valid_loader:
                total += self.criterion(self.model(x), y).item() * len(x)
                count += len(x)
        return self.mean(total, count)

    def fit(self):
        """Up to five epochs."""
        for epoch in range(5):
            self.sampler.set_epoch(epoch)
            train, valid = self.train_epoch(), self.validate()
            if self.rank == 0:
                print(f"epoch {epoch} train {train:.6f} valid {valid:.6f}")
            self.scheduler.step(valid)
            if valid < self.best:
                self.best, self.waited = valid, 0
                if self.rank == 0:
                    state = {"model": self.model.module.state_dict(), "epoch": epoch}
                    torch.save(state, "best.pt")
            else:
                self.waited += 1
            if self.waited >= 2:
                break


dist.init_process_group("gloo")
Trainer().fit()
dist.destroy_process_group()
