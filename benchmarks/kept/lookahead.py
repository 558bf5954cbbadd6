"""Slow weights in a list that pull the fast ones back, and random numbers of all global streams."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14
SYNC = 4


def pull(slow, fast):
    """Half the way to the fast weights, which start again from there."""
    with torch.no_grad():
        for s, f in zip(slow, fast):
            s += 0.5 * (f - s)
            f.copy_(s)


torch.manual_seed(13)
random.seed(13)
np.random.seed(13)
x = torch.randn(37, 6)
y = x[:, :3].argmax(1)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
slow = [p.detach().clone() for p in model.parameters()]
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = DataLoader(
    TensorDataset(x, y), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(14)
)
statistics = {"norm": {"low": np.inf, "high": 0.0}, "losses": []}
step = 0

for epoch in range(EPOCHS):
    smoothing = 0.1 * random.random() + 0.05 * np.random.rand() + 0.05 * torch.rand(1).item()
    for inputs, targets in loader:
        loss = F.cross_entropy(model(inputs), targets, label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % SYNC == 0:
            pull(slow, model.parameters())
        norm = sum(s.norm().item() for s in slow)
        statistics["norm"]["low"] = min(statistics["norm"]["low"], norm)
        statistics["norm"]["high"] = max(statistics["norm"]["high"], norm)
        statistics["losses"].append(loss.item())
    print(f"epoch {epoch} step {step} {loss.item():.8f} {statistics['norm']}")

torch.save([model.state_dict(), slow, optimizer.state_dict(), statistics["losses"]], "slow.pt")
