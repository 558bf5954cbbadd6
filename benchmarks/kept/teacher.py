"""A mean teacher, buffers included, whose outputs are in the loss."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14

torch.manual_seed(2)
x = torch.randn(37, 6)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
student = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader))

for epoch in range(EPOCHS):
    student.train()
    teacher.eval()
    total = 0.0
    for inputs, targets in loader:
        output = student(inputs)
        with torch.no_grad():
            wanted = teacher(inputs).softmax(1)
        loss = F.cross_entropy(output, targets) + 0.3 * F.mse_loss(output.softmax(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        now = student.state_dict()
        for name, value in teacher.state_dict().items():
            if value.is_floating_point():
                value.copy_(0.9 * value + 0.1 * now[name])
            else:
                value.copy_(now[name])
        total += loss.item()
    rate = scheduler.get_last_lr()[0]
    print(f"epoch {epoch} total {total:.8f} rate {rate:.8f}")

torch.save({"student": student.state_dict(), "teacher": teacher.state_dict(),
            "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, "teacher.pt")
