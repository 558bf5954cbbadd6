"""A memory bank with a row for each sample, and how often each was seen."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

EPOCHS = 14
COUNT = 33


class Numbered(Dataset):
    """Samples with their numbers."""

    def __init__(self):
        draw = torch.Generator().manual_seed(4)
        self.x = torch.randn(COUNT, 6, generator=draw)
        self.y = self.x[:, :3].argmax(1)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.x[index], self.y[index], index


def main():
    torch.manual_seed(4)
    loader = DataLoader(Numbered(), batch_size=7, shuffle=True)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    bank = torch.full((COUNT, 3), 1 / 3)
    visits = np.zeros(COUNT)
    for epoch in range(EPOCHS):
        total = 0.0
        for x, y, index in loader:
            logits = model(x)
            soft = 0.7 * F.one_hot(y, 3) + 0.3 * bank[index]
            loss = -(soft * logits.log_softmax(1)).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bank[index] = 0.8 * bank[index] + 0.2 * logits.detach().softmax(1)
            visits[index.numpy()] += 1
            total += loss.item()
        print(f"epoch {epoch} total {total:.8f} bank {bank.std().item():.8f} {visits.sum():.0f}")
    torch.save({"model": model.state_dict(), "bank": bank, "visits": torch.from_numpy(visits),
                "optimizer": optimizer.state_dict()}, "bank.pt")


main()
