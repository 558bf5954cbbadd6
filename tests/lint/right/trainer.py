"""A right DDP script with a trainer class: gradient accumulation, a plateau schedule, logs."""

import contextlib
import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.tensorboard import SummaryWriter


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Linear(20, width)
        self.hidden = nn.Linear(width, width)

    def forward(self, x):
        return self.hidden(torch.relu(self.embed(x)))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


class Trainer:
    def __init__(self, model, data, epochs):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self.device = torch.device("cuda", self.local_rank)
        self.epochs = epochs
        self.accumulate = 4
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, 16, sampler=self.sampler)
        self.raw = model.to(self.device)
        self.model = nn.parallel.DistributedDataParallel(self.raw, device_ids=[self.local_rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)
        self.criterion = nn.CrossEntropyLoss()
        self.writer = SummaryWriter("runs") if self.rank == 0 else None
        self.patience = 3

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = 0.0
        for step, (x, y) in enumerate(self.loader):
            last = (step + 1) % self.accumulate == 0 or step + 1 == len(self.loader)
            x, y = x.to(self.device), y.to(self.device)
            with contextlib.nullcontext() if last else self.model.no_sync():
                loss = self.criterion(self.model(x), y) / self.accumulate
                loss.backward()
            if last:
                self.optimizer.step()
                self.optimizer.zero_grad()
            total += loss.item()
        mean = torch.tensor(total / len(self.loader), device=self.device)
        dist.all_reduce(mean)
        mean /= self.world_size
        return mean.item()

    def fit(self):
        best, waited = float("inf"), 0
        for epoch in range(self.epochs):
            loss = self.train_epoch(epoch)
            self.schedule.step(loss)
            if self.rank == 0:
                self.writer.add_scalar("loss", loss, epoch)
                with open("history.json", "a") as file:
                    json.dump({"epoch": epoch, "loss": loss}, file)
            waited = 0 if loss < best else waited + 1
            best = min(best, loss)
            if waited >= self.patience:
                break
        if self.rank == 0:
            torch.save(self.raw.state_dict(), "model.pt")
        dist.barrier()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    rows = torch.linspace(0, 1, 20 * 512).reshape(512, 20)
    data = TensorDataset(rows, (rows.sum(1) > 10).long())
    trainer = Trainer(Classifier(), data, epochs=20)
    trainer.fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
