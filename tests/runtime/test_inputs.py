"""move_inputs: what a model is called with goes to the model's device."""

from __future__ import annotations

from collections import namedtuple

import torch
from torch import nn

from ddpify.runtime.inputs import move_inputs

Pair = namedtuple("Pair", "left right")


class Scaled(nn.Module):
    """A layer that shows where its arguments are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, rows: Pair, *, scales: dict[str, list[torch.Tensor]], name: str) -> str:
        """rows: two tensors of shape (N, 3)."""
        held = [rows.left, rows.right, *scales["by"]]
        self.layer(rows.left)
        return name + " ".join(tensor.device.type for tensor in held)


def test_tensors_in_containers_are_moved() -> None:
    model = Scaled().to("meta")
    move_inputs(model, torch.device("meta"))
    rows = Pair(torch.ones(4, 3), torch.ones(4, 3))
    assert model(rows, scales={"by": [torch.ones(4)]}, name="on ") == "on meta meta meta"
    assert rows.left.device.type == "cpu"
