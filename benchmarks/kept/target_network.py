"""A target network that is copied now and then, and values of states kept in arrays."""

import copy
from argparse import Namespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 14


def main():
    torch.manual_seed(11)
    np.random.seed(11)
    state, reward = torch.randn(35, 4), torch.randn(35)
    action, following = torch.randint(0, 2, (35,)), torch.randn(35, 4)
    data = TensorDataset(state, action, reward, following)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    online = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 2))
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-3)
    progress = Namespace(step=0, copies=0, loss=0.0)
    moments = np.zeros(2)
    chance = np.random.default_rng(12)
    for epoch in range(EPOCHS):
        discount = 0.9 + 0.05 * np.random.rand()
        for s, a, r, n in loader:
            with torch.no_grad():
                wanted = r + discount * target(n).max(1).values
            value = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(value, wanted) * (1 + 0.2 * chance.random())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress.step += 1
            progress.loss = loss.item()
            moments[0] += loss.item()
            moments[1] += loss.item() ** 2
            if progress.step % 7 == 0:
                target.load_state_dict(online.state_dict())
                progress.copies += 1
        print(f"epoch {epoch} {progress.step} {progress.copies} {progress.loss:.8f} {moments[1]:.8f}")
    torch.save([online.state_dict(), target.state_dict(), optimizer.state_dict(),
                torch.from_numpy(moments), progress.copies], "target.pt")


main()
