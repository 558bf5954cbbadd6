"""The same training with Accelerate; the batch size is divided so that the global batch stays."""

import argparse

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch-size", type=int, default=128)
args = parser.parse_args()

accelerator = Accelerator(cpu=not torch.cuda.is_available())  # else: one process on a CPU
torch.manual_seed(0)
images = torch.randn(args.steps * args.batch_size, 1, 28, 28)
labels = torch.randint(10, (len(images),))
loader = DataLoader(
    TensorDataset(images, labels),
    batch_size=args.batch_size // accelerator.num_processes,
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
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        if step % 20 == 0:
            accelerator.print(f"epoch {epoch} step {step}: loss {loss.item():.4f}")
        # step done

accelerator.end_training()
