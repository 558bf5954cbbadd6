"""Gradient accumulation over the ends of epochs, with a schedule by steps and clipping."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14
WINDOW = 3

torch.manual_seed(8)
x = torch.randn(40, 6)
y = x.sin().sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=0.02, total_steps=EPOCHS * len(loader) // WINDOW + 1
)
micro, norms, last_norm = 0, [], 0.0

for epoch in range(EPOCHS):
    running = 0.0
    for inputs, targets in loader:
        loss = F.mse_loss(model(inputs), targets) / WINDOW
        loss.backward()
        running += loss.item()
        micro += 1
        if micro % WINDOW == 0:
            last_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            norms.append(last_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    print(f"epoch {epoch} micro {micro} running {running:.8f} norm {last_norm:.8f}")

torch.save([model.state_dict(), optimizer.state_dict(), schedule.state_dict(), norms], "end.pt")
