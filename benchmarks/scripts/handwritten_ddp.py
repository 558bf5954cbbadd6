"""The same training by hand, as PyTorch's DistributedDataParallel tutorials write it."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch-size", type=int, default=128)
args = parser.parse_args()

on_gpu = torch.cuda.is_available()
local_rank = int(os.environ["LOCAL_RANK"])
if on_gpu:
    torch.cuda.set_device(local_rank)
dist.init_process_group("nccl" if on_gpu else "gloo")
device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")

torch.manual_seed(0)
images = torch.randn(args.steps * args.batch_size, 1, 28, 28)
labels = torch.randint(10, (len(images),))
dataset = TensorDataset(images, labels)
sampler = DistributedSampler(dataset)
loader = DataLoader(
    dataset, batch_size=args.batch_size // dist.get_world_size(), shuffle=False, sampler=sampler
)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(800, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
).to(device)
model = DistributedDataParallel(model, device_ids=[local_rank] if on_gpu else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(3):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 20 == 0 and dist.get_rank() == 0:
            print(f"epoch {epoch} step {step}: loss {loss.item():.4f}")
        # step done

dist.destroy_process_group()
