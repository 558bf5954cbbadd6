"""A momentum encoder and a queue of its keys with a pointer, as in MoCo."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14
QUEUE = 24

torch.manual_seed(3)
views = torch.randn(35, 2, 6)
views[:, 1] = views[:, 0] + 0.1 * views[:, 1]
loader = DataLoader(TensorDataset(views), batch_size=7, shuffle=True)
encoder = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 4))
slow = copy.deepcopy(encoder)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
queue = F.normalize(torch.randn(QUEUE, 4), dim=1)
pointer = torch.zeros(1, dtype=torch.long)
seen = [0]

for epoch in range(EPOCHS):
    total = 0.0
    for (pairs,) in loader:
        queries = F.normalize(encoder(pairs[:, 0]), dim=1)
        with torch.no_grad():
            torch._foreach_lerp_(list(slow.parameters()), list(encoder.parameters()), 0.05)
            keys = F.normalize(slow(pairs[:, 1]), dim=1)
        positive = (queries * keys).sum(1, keepdim=True)
        negative = queries @ queue.clone().t()
        logits = torch.cat([positive, negative], dim=1) / 0.2
        loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        at = int(pointer)
        places = (at + torch.arange(len(keys))) % QUEUE
        queue[places] = keys
        pointer[0] = (at + len(keys)) % QUEUE
        seen[0] += len(keys)
        total += loss.item()
    print(f"epoch {epoch} total {total:.8f} pointer {int(pointer)} seen {seen[0]}")

torch.save([encoder.state_dict(), slow.state_dict(), queue, pointer, optimizer.state_dict()], "m.pt")
