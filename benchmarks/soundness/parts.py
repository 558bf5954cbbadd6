"""What all generated scripts share: data, a model, and a training loop around some lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

IMPORTS = """\
import collections
import functools
import itertools
import statistics

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""

LINEAR = ["model = nn.Linear(4, 4)"]
MODELS = [
    LINEAR,
    LINEAR,
    ["model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))"],
    [
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.body = nn.Linear(4, 4)",
        "",
        "    def forward(self, batch):",
        "        return torch.tanh(self.body(batch))",
        "",
        "",
        "model = Net()",
    ],
]


@dataclass
class Parts:
    """A script's parts, each as lines without indentation, in the order of the script."""

    definitions: list[str] = field(default_factory=list)
    loader: list[str] | None = None
    model: list[str] = field(default_factory=lambda: LINEAR)
    before: list[str] = field(default_factory=list)
    head: str = "for inputs, targets, labels in loader:"
    forward: list[str] = field(default_factory=lambda: ["out = model(inputs)"])
    result: list[str] = field(default_factory=list)
    loss: list[str] = field(default_factory=lambda: ["loss = F.mse_loss(out, targets)"])
    clear: list[str] = field(default_factory=lambda: ["optimizer.zero_grad()"])
    gradients: list[str] = field(default_factory=list)
    update: list[str] = field(default_factory=lambda: ["optimizer.step()"])
    step: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)


def assembled(parts: Parts, chance: random.Random) -> str:
    """The text of a script whose data, order and batch size are drawn."""
    samples, size = chance.choice([(9, 4), (10, 4), (11, 4), (11, 5), (13, 5), (14, 6)])
    shuffle = chance.choice([", shuffle=True", ", shuffle=True", ""])
    data = [
        f"torch.manual_seed({chance.randrange(1000)})",
        f"features, goals = torch.randn({samples}, 4), torch.randn({samples}, 4)",
        f"data = TensorDataset(features, goals, torch.randint(0, 4, ({samples},)))",
    ]
    loader = parts.loader or ["loader = DataLoader(data, batch_size={size}{shuffle})"]
    drawn = [line.replace("{size}", str(size)).replace("{shuffle}", shuffle) for line in loader]
    update = [*parts.clear, "loss.backward()", *parts.gradients, *parts.update]
    inner = [*parts.forward, *parts.result, *parts.loss, *update, *parts.step]
    lines = [
        *parts.definitions,
        *data,
        *drawn,
        *parts.model,
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)",
        *parts.before,
        "for epoch in range(2):",
        f"    {parts.head}",
        *(f"        {line}" for line in inner),
        *parts.end,
    ]
    gap = "\n\n" if parts.definitions else "\n"
    return only_used(IMPORTS, lines) + gap + "\n".join(lines) + "\n"


def only_used(imports: str, lines: list[str]) -> str:
    """The imports whose names the lines use."""
    text = "\n".join(lines)
    names = {"collections": "collections.", "functools": "functools.", "itertools": "itertools."}
    names |= {"statistics": "statistics.", "numpy": "np.", "functional": "F."}
    kept = []
    for line in imports.splitlines():
        needed = [use for name, use in names.items() if name in line]
        if not needed or needed[0] in text:
            kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"
