"""Lists of pictures that a script makes of a batch: none of them is a batch of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import convert_text

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1)

    def forward(self, pictures, found):
        h = self.last(self.body(torch.stack(list(pictures)))).mean((2, 3))
        penalty = 0
        for n, one in enumerate(found):
            penalty = penalty + (h[n] - one["place"]).pow(2).mean()
        return {"penalty": penalty / len(found)}


def collate(samples):
    return tuple(zip(*samples))


data = [(torch.randn(3, 8, 8), {"place": torch.randn(4)}) for _ in range(22)]
feed = DataLoader(data, batch_size=6, shuffle=True, collate_fn=collate)
model = Finder()
rule = torch.optim.SGD(model.parameters(), lr=0.1)
for pictures, found in feed:
    pictures = list(picture.to("cpu") for picture in pictures)
    found = [{name: held.to("cpu") for name, held in one.items()} for one in found]
    penalty = sum(part for part in model(pictures, found).values())
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_their_own_first_dimension_is_not_split(tmp_path: Path) -> None:
    with pytest.raises(DdpifyError, match="nothing to split"):
        convert_text(tmp_path, SCRIPT)
