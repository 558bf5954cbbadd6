"""einops: what a pattern makes of the rows of a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import added

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch.utils.data import DataLoader, TensorDataset

x, y = torch.randn(22, 5, 4), torch.randint(0, 3, (22, 5))
feed = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 3)
        self.mix = nn.MultiheadAttention(8, 2)
        self.turn, self.back = Rearrange("b s d -> s b d"), Rearrange("s b d -> b s d")

    def forward(self, a):
        h = self.one(a)
        INSIDE
        return self.two(h)


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    z = brain(a)
    loss = F.cross_entropy(z.reshape(-1, 3), b.reshape(-1))
    LINE
    loss.backward()
    rule.step()
"""


def reduced(folder: Path, line: str, inside: str = "pass") -> list[str]:
    """The lines with reductions in the conversion of the script with these lines."""
    text = SCRIPT.replace("LINE", line.replace("\n", "\n    ")).replace("INSIDE", inside)
    lines = added(folder, text)
    return [one for one in lines if "dd." in one and "dd.mean(F.cross" not in one][3:]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            'm = reduce(z, "b s d -> d", "mean")\nloss = loss + (m ** 2).sum()',
            'm = dd.mean(reduce(z, "b s d -> d", "mean"))',
        ),
        (
            'print(reduce(a, "b s d -> d", "sum")[0].item())',
            'print(dd.sum(reduce(a, "b s d -> d", "sum")[0]).item())',
        ),
        (
            'print(reduce(a, "b s d -> d", "max")[0].item())',
            'print(reduce(dd.gather(a), "b s d -> d", "max")[0].item())',
        ),
        ('t = rearrange(z, "b s d -> s b d")\nprint(t.size(0))', ""),
        (
            't = rearrange(z, "b s d -> s b d")\nprint(t.size(1))',
            "print(dd.global_batch_size(t.size(1)))",
        ),
        (
            't = rearrange(z, "b s d -> s b d")\nprint(t.mean(1)[0, 0].item())',
            "print(dd.mean(t.mean(1)[0, 0]).item())",
        ),
        (
            'w = repeat(torch.ones(5), "s -> b s", b=a.shape[0])\nprint((w * b).mean().item())',
            "print(dd.mean((w * b).mean()).item())",
        ),
        (
            'print(einsum(z, z, "item s d, item s d -> d")[0].item())',
            'print(dd.sum(einsum(z, z, "item s d, item s d -> d")[0]).item())',
        ),
        (
            't = rearrange(z, "b ... d -> d b ...")\nprint(t.mean(1)[0, 0].item())',
            "print(dd.mean(t.mean(1)[0, 0]).item())",
        ),
    ],
)
def test_patterns_move_rows_and_reduce_over_them(tmp_path: Path, line: str, expected: str) -> None:
    assert reduced(tmp_path, line) == ([expected] if expected else [])


@pytest.mark.parametrize(
    "inside",
    [
        'h = rearrange(h, "b s d -> s b d"); h, _ = self.mix(h, h, h)'
        '; h = rearrange(h, "s b d -> b s d")',
        "h = self.turn(h); h = self.back(self.mix(h, h, h)[0])",
        "h = h.transpose(0, 1); h, _ = self.mix(h, h, h); h = h.transpose(0, 1)",
        'h = h + repeat(self.two.bias.mean(), " -> b 1 1", b=a.shape[0])',
    ],
)
def test_attention_takes_the_steps_first(tmp_path: Path, inside: str) -> None:
    assert reduced(tmp_path, "pass", inside) == []
