"""A collate function turns each sample: it has no rows, wherever its dimensions go."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

TEXT = """
import numpy as np
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10

def collate(batch):
    made = torch.zeros(len(batch), 3, 8, 8)
    for i, (image, label) in enumerate(batch):
        made[i] += {turned}
    return made, torch.tensor([y for _, y in batch])

net = torch.nn.Conv2d(3, 1, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(CIFAR10("data"), 4, collate_fn=collate):
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "turned",
    [
        "torch.from_numpy(np.rollaxis(np.asarray(image), 2))",
        "torch.movedim(torch.as_tensor(image), 2, 0)",
        "torch.as_tensor(image).permute(2, 0, 1)",
    ],
)
def test_a_turned_sample(turned: str, lint_text: Lint) -> None:
    found = lint_text(TEXT.replace("{turned}", turned), select=("DDP413",))
    assert [one.code for one in found] == ["DDP413"]
