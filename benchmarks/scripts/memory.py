"""A training whose memory ``ddpify plan`` says: one of four models, a few steps of Adam."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="transformer")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Tokens(nn.Module):
    """Classes of sequences of tokens."""

    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(8000, 512)
        self.layers = layers
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        """x: (samples, tokens), int64. Returns (samples, 10)."""
        h = self.layers(self.embed(x))
        h = h[0] if isinstance(h, tuple) else h
        return self.head(h.mean(1))


def convolutions():
    """A network with BatchNorm for images of (3, 32, 32)."""
    layers, width = [nn.Conv2d(3, 64, 3, padding=1)], 64
    for _ in range(3):
        for _ in range(2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU()]
        width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def transformer():
    """Six layers, before a mean over the tokens."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
    return Tokens(nn.TransformerEncoder(layer, 6, enable_nested_tensor=False))


MODELS = {
    "transformer": transformer,
    "convolutions": convolutions,
    "lstm": lambda: Tokens(nn.LSTM(512, 512, 2, batch_first=True)),
    "perceptron": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, 10),
    ),
}  # fmt: skip


class Made(Dataset):
    """Samples that take no time to make."""

    def __len__(self):
        return 200_000

    def __getitem__(self, i):
        if args.model in ("transformer", "lstm"):
            return torch.arange(128) * 31 % 8000, i % 10
        return torch.full((3, 32, 32), i % 7 / 7), i % 10


loader = DataLoader(Made(), batch_size=args.batch, shuffle=True, drop_last=True)
model = MODELS[args.model]().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for step, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast(device.type, torch.bfloat16, enabled=args.bf16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step + 1 == args.steps:
        break
