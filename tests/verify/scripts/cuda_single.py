# mypy: ignore-errors
"""Train with CUDA hardcoded, a convolution, BatchNorm and automatic mixed precision."""

import torch
from cuda_net import Net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
torch.cuda.manual_seed_all(3)
net = Net().cuda()
data = TensorDataset(torch.randn(24, 1, 6, 6), torch.arange(24) % 2)
scaler = torch.cuda.amp.GradScaler()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for x, y in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
    x, y = x.to("cuda:0", non_blocking=True), y.to(0)
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("loss", round(loss.item(), 5), torch.cuda.get_device_name(0) != "")
