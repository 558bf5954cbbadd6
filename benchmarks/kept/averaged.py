"""Stochastic weight averaging by PyTorch's own class, after a number of epochs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14
FROM = 5

torch.manual_seed(10)
x = torch.randn(39, 6)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
averaged = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, gamma=0.7)
swa_scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=3)
best = {"loss": float("inf"), "epoch": -1}

for epoch in range(EPOCHS):
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if epoch >= FROM:
            averaged.update_parameters(model)
    if epoch >= FROM:
        swa_scheduler.step()
    else:
        scheduler.step()
    if total < best["loss"]:
        best["loss"], best["epoch"] = total, epoch
    print(f"epoch {epoch} total {total:.8f} averaged {int(averaged.n_averaged)} {best['epoch']}")

torch.save([model.state_dict(), averaged.state_dict(), optimizer.state_dict(), best], "swa.pt")
