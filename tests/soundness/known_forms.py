"""Scripts around single lines: in the loop, a model's forward, a collate function, a hook."""

from __future__ import annotations

_HEAD = """\
import collections
import functools
import io

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""

_DATA = """\
torch.manual_seed(905)
features, goals = torch.randn(11, 4), torch.randn(11, 4)
data = TensorDataset(features, goals, torch.randint(0, 4, (11,)))
"""

_STEP = """\
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""

_LOOP = f"""\
{_HEAD}
{_DATA}\
loader = DataLoader(data, batch_size=5, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for inputs, targets, labels in loader:
        out = model(inputs)
        loss = F.mse_loss(out, targets)
        LINES
{_STEP}"""

_FORWARD = f"""\
{_HEAD}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4)
        self.table = nn.Parameter(torch.arange(32.0).view(8, 4) / 32)
        self.bags = nn.EmbeddingBag(4, 4)
        self.sparse = nn.Embedding(4, 4, sparse=True)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Softmax(-2)])
        self.cell, self.alike = nn.LSTMCell(4, 4), nn.CosineSimilarity(dim=0)

    def forward(self, inputs, labels):
        h = torch.tanh(self.body(inputs))
        LINES
        return self.head(h)


{_DATA}\
loader = DataLoader(data, batch_size=5, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for inputs, targets, labels in loader:
        out = model(inputs, labels)
        loss = F.mse_loss(out, targets)
{_STEP}"""

_HOOK = f"""\
{_HEAD}

def hook(module, args, h):
    LINES
    return h


{_DATA}\
loader = DataLoader(data, batch_size=5, shuffle=True)
model = nn.Linear(4, 4)
model.register_forward_hook(hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for inputs, targets, labels in loader:
        loss = F.mse_loss(model(inputs), targets)
{_STEP}"""

_COLLATE = f"""\
{_HEAD}

def collate(samples):
    inputs, targets, labels = (torch.stack(part) for part in zip(*samples))
    r = torch.zeros(())
    LINES
    return inputs + 0.1 * r, targets, labels


{_DATA}\
loader = DataLoader(data, batch_size=5, shuffle=True, collate_fn=collate)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for inputs, targets, labels in loader:
        loss = F.mse_loss(model(inputs), targets)
{_STEP}"""

_BY_HAND = f"""\
{_HEAD}
torch.manual_seed(905)
features, goals = torch.randn(10, 4), torch.randn(10, 4)
order = torch.randperm(len(features))
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for i in range(0, len(features), 5):
        rows = order[i : i + 5]
        inputs, targets = features[rows], goals[rows]
        out = model(inputs)
        LINES
        loss = F.mse_loss(out, targets) + 0.1 * r.pow(2).mean()
{_STEP}"""

_PLACES = {
    "loop": (_LOOP, 8),
    "forward": (_FORWARD, 8),
    "collate": (_COLLATE, 4),
    "by hand": (_BY_HAND, 8),
    "hook": (_HOOK, 4),
}


_DATA_OF_A_FILE = """\
torch.manual_seed(905)
file = io.BytesIO()
np.save(file, np.random.default_rng(905).normal(size=SHAPE))
file.seek(0)


class Samples(torch.utils.data.Dataset):
    def __init__(self):
        self.read = np.load(file)

    def __len__(self):
        return self.read.shape[1]

    def __getitem__(self, i):
        x, y = (torch.from_numpy(part[i]) for part in self.read)
        return x.to(torch.get_default_dtype()), y.to(torch.get_default_dtype()), i % 4


data = Samples()
"""


def of_unknown_dimensions(lines: str, *sizes: int, place: str = "forward") -> str:
    """A script with these lines, by default in a forward, of samples of these sizes in a file."""
    shape = str((2, 11, *sizes))
    return script(place, lines).replace(_DATA, _DATA_OF_A_FILE.replace("SHAPE", shape))


def script(place: str, lines: str) -> str:
    """A training script with these lines there; ``by hand``, on batches that it makes itself."""
    text, indent = _PLACES[place]
    return text.replace("LINES", lines.replace("\n", "\n" + " " * indent))
