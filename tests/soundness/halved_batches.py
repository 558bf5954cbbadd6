"""A script around lines on a batch, its rows twice under each other, and their number."""

SCRIPT = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(61)
data = TensorDataset(torch.randn(14, 4), torch.randn(14, 4))
loader = DataLoader(data, batch_size=6, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        both = torch.cat([out, y])
        n = len(x)
        LINES
        loss = F.mse_loss(out, y) + r.double().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""
