"""Dropout that no forward applies draws nothing, whatever seed the ranks have."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

MODEL = """
torch.manual_seed(0)
{before}

class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.l2 = nn.Linear(10, 2)
        {layer}

    def forward(self, x):
        hidden = self.l1(x).relu()
        {use}
        return self.l2(hidden)

model = DDP(Dropping().to(device), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{after}
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
OTHER = """
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)
"""
PLAIN = "self.drop = nn.Dropout(0.5)"
IDLE = [
    (PLAIN, "pass", "", ""),
    ("self.drop = nn.Dropout2d()", "pass", "", ""),
    ("self.drop: nn.Module = nn.AlphaDropout(0.2)", "pass", "", ""),
    ("self.drop = nn.TransformerEncoderLayer(10, 2)", "pass", "", ""),
    ("self.drop = nn.LSTM(10, 10, dropout=0.1)", "pass", "", ""),
    ("self.drop = nn.Dropout(0.5) if epochs > 3 else nn.Dropout(0.1)", "pass", "", ""),
    (PLAIN, "pass", OTHER, ""),
    (PLAIN, "pass", OTHER, "other = Other()"),
    (PLAIN, "self.drop = nn.Dropout(0.1)", "", ""),
    (PLAIN, "hidden = hidden + self.l1.bias", "", ""),
]
APPLIED = [
    (PLAIN, "hidden = self.drop(hidden)", "", ""),
    (PLAIN, "hidden = self.drop(hidden) if epochs > 3 else hidden", "", ""),
    (PLAIN, "drop = self.drop\n        hidden = drop(hidden)", "", ""),
    (PLAIN, "hidden = getattr(self, 'drop')(hidden)", "", ""),
    (PLAIN, "for layer in self.children():\n            hidden = hidden + 0", "", ""),
    (PLAIN, "hidden = self.drop(hidden)", OTHER, "other = Other()"),
    ("self.drop = nn.Sequential(nn.Dropout(0.5))", "hidden = self.drop(hidden)", "", ""),
    (PLAIN, "pass", "", "with torch.no_grad():\n    model.module.drop(torch.ones(1))"),
]


def _found(lint_text: Lint, layer: str, use: str, before: str, after: str) -> bool:
    text = MODEL
    for name, part in (("layer", layer), ("use", use), ("before", before), ("after", after)):
        text = text.replace("{" + name + "}", part)
    return bool(lint_text(SETUPS["distributed"] + text, select=("DDP601",)))


@pytest.mark.parametrize(("layer", "use", "before", "after"), IDLE)
def test_dropout_that_nothing_reads(
    layer: str, use: str, before: str, after: str, lint_text: Lint
) -> None:
    assert not _found(lint_text, layer, use, before, after)


@pytest.mark.parametrize(("layer", "use", "before", "after"), APPLIED)
def test_dropout_that_is_applied(
    layer: str, use: str, before: str, after: str, lint_text: Lint
) -> None:
    assert _found(lint_text, layer, use, before, after)
