"""The same training with Lightning Fabric; the batch size is divided, as the global batch stays."""

import argparse
import os

import torch
import torch.nn as nn
from lightning_fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch-size", type=int, default=128)
args = parser.parse_args()

on_gpu = torch.cuda.is_available()
fabric = Fabric(strategy="ddp", devices="auto" if on_gpu else int(os.environ["LOCAL_WORLD_SIZE"]))
fabric.launch()
torch.manual_seed(0)
images = torch.randn(args.steps * args.batch_size, 1, 28, 28)
labels = torch.randint(10, (len(images),))
loader = DataLoader(
    TensorDataset(images, labels),
    batch_size=args.batch_size // fabric.world_size,
    shuffle=True,
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
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.CrossEntropyLoss()
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(loader)

for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        fabric.backward(loss)
        optimizer.step()
        if step % 20 == 0:
            fabric.print(f"epoch {epoch} step {step}: loss {loss.item():.4f}")
        # step done
