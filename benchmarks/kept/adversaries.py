"""Two models against each other, noise of generators, and what came before in a list."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14


def main():
    torch.manual_seed(6)
    random.seed(6)
    data = torch.randn(36, 2) * 0.3 + 1
    loader = DataLoader(TensorDataset(data), batch_size=8, shuffle=True)
    maker = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 2))
    judge = nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
    maker_optimizer = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
    draw = torch.Generator().manual_seed(7)
    fixed = torch.randn(5, 3)
    history = {"maker": [], "judge": []}
    slow = [p.detach().clone() for p in maker.parameters()]
    for epoch in range(EPOCHS):
        for (real,) in loader:
            noise = torch.randn(len(real), 3, generator=draw)
            fake = maker(noise)
            yes, no = judge(real), judge(fake.detach())
            judge_loss = F.softplus(-yes).mean() + F.softplus(no).mean()
            judge_optimizer.zero_grad()
            judge_loss.backward()
            judge_optimizer.step()
            maker_loss = F.softplus(-judge(fake)).mean() * (1 + 0.1 * random.random())
            maker_optimizer.zero_grad()
            maker_loss.backward()
            maker_optimizer.step()
            for kept, p in zip(slow, maker.parameters()):
                kept.data = 0.95 * kept.data + 0.05 * p.data
            history["judge"].append(judge_loss.item())
            history["maker"].append(maker_loss.item())
        with torch.no_grad():
            shown = maker(fixed).mean().item()
        print(f"epoch {epoch} {history['judge'][-1]:.8f} {history['maker'][-1]:.8f} {shown:.8f}")
    torch.save([maker.state_dict(), judge.state_dict(), maker_optimizer.state_dict(),
                judge_optimizer.state_dict(), slow, history], "pair.pt")


main()
