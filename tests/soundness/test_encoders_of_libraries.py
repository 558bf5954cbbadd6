"""Encoders that a library gives among several results: models, whose rows are a rank's own."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import sys
import types
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = nn.Linear(6, 5)

    def encode_image(self, x):
        return torch.tanh(self.see(x))

    def forward(self, x):
        return self.encode_image(x), None


def create(*names):
    return Clip(), None, None


sys.modules["open_clip"] = types.SimpleNamespace(create_model_and_transforms=create)
import open_clip

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
MADE

proj = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4))
loader = DataLoader(
    TensorDataset(torch.randn(22, 6), torch.randint(0, 4, (22,))), batch_size=8, shuffle=True
)
optimizer = torch.optim.SGD(proj.parameters(), lr=0.1)
for epoch in range(2):
    running = 0.0
    for x, y in loader:
        USED
        loss = F.cross_entropy(proj(a), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(epoch, f"{running:.6f}")
"""
IN_A_FUNCTION = """\
def build():
    model, _, _ = open_clip.create_model_and_transforms("ViT-B-16")
    model = model.to("cpu")
    model.eval()
    for p in model.parameters():
        p.requires_grad = False
    return model


model = build()
"""
AT_ONCE = """\
model, _, _ = open_clip.create_model_and_transforms("ViT-B-16")
model.eval()
for p in model.parameters():
    p.requires_grad = False
"""
IN_AN_OBJECT = """\
class Encoder:
    def __init__(self):
        self.net, _, self.prepare = open_clip.create_model_and_transforms("ViT-B-16")
        self.net = self.net.to("cpu").eval()
        for p in self.net.parameters():
            p.requires_grad_(False)

    def see(self, x):
        with torch.no_grad():
            return self.net.encode_image(x)


model = Encoder()
"""
UNFROZEN = """\
model, _, _ = open_clip.create_model_and_transforms("ViT-B-16")
model = model.to("cpu")
model.eval()
"""
ENCODED = "with torch.no_grad():\n    a = model.encode_image(x)"
CALLED = "with torch.no_grad():\n    a, _ = model(x)"
HARDEST = ENCODED + "\na = a + a[torch.cdist(a, a).argmax(1)]"
KNOWN = [
    (IN_A_FUNCTION, ENCODED),
    (IN_A_FUNCTION, HARDEST),
    (IN_A_FUNCTION, CALLED),
    (AT_ONCE, ENCODED),
    (AT_ONCE, ENCODED + "\na = a / a.norm(dim=-1, keepdim=True)"),
    (IN_AN_OBJECT, "a = model.see(x)"),
    (UNFROZEN, ENCODED),
]


@pytest.mark.parametrize(("made", "used"), KNOWN)
def test_what_they_make_of_rows_are_rows(trial: Trial, made: str, used: str) -> None:
    verdict = trial.verdict(script(made, used))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def script(made: str, used: str) -> str:
    return SCRIPT.replace("MADE\n", made).replace("USED", used.replace("\n", "\n        "))
