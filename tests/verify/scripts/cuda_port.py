# mypy: ignore-errors
"""The CUDA script on several GPUs; BatchNorm uses each rank's own statistics."""

import os

import torch
import torch.distributed as dist
from cuda_net import Net
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
torch.manual_seed(3)
net = DistributedDataParallel(Net().cuda(), device_ids=[local])
data = TensorDataset(torch.randn(24, 1, 6, 6), torch.arange(24) % 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for x, y in DataLoader(data, batch_size=8):
    x, y = x[local::2].to(local), y[local::2].to(local)
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.all_reduce(loss)
if local == 0:
    print("loss", round(loss.item() / 2, 5), True)
