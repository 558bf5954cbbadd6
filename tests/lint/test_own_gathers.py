"""A loss over what a function with a backward of the project's own has gathered."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

GATHER = """
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return {given}

    @staticmethod
    def backward(ctx, *gradients):
        summed = torch.stack(gradients)
        dist.all_reduce(summed)
        return summed[dist.get_rank()]


def gather(x):
    return torch.cat(Gather.apply(x), dim=0)


apply = Gather.apply

for x, y in loader:
    z = F.normalize(model(x), dim=1)
    {mend}
    similar = {similar}
    loss = F.cross_entropy(similar / 0.1, torch.arange(len(similar)))
    loss.backward()
    optimizer.step()
"""
ALL = [
    ("z = torch.cat(Gather.apply(z))", "z @ z.T", "tuple(parts)"),
    ("z = torch.cat(Gather.apply(z), dim=0)", "z @ z.T", "tuple(parts)"),
    ("every = Gather.apply(z)\n    z = torch.cat(every)", "torch.mm(z, z.t())", "tuple(parts)"),
    ("every = torch.cat(Gather.apply(z))", "z @ every.T", "tuple(parts)"),
    ("every = torch.vstack(Gather.apply(z))", "torch.matmul(z, every.t())", "tuple(parts)"),
    ("z = Gather.apply(z)", "z @ z.T", "torch.cat(parts)"),
    ("z = Gather.apply(z.contiguous())", "torch.matmul(z, z.T)", "torch.cat(parts, 0)"),
    ("z = gather(z)", "z @ z.T", "tuple(parts)"),
    ("z = torch.cat(apply(z))", "z @ z.T", "tuple(parts)"),
    ("a, b = gather(z), gather(model(x))", "a @ b.T", "tuple(parts)"),
]
OWN = [
    ("shown = gather(z.detach())\n    print(shown.mean())", "z @ z.T", "tuple(parts)"),
    ("y = gather(y)", "z @ z.T", "tuple(parts)"),
    ("shown = gather(x)", "torch.matmul(z, z.T)", "tuple(parts)"),
]


def _codes(lint_text: Lint, mend: str, similar: str, given: str) -> list[str]:
    code = GATHER.replace("{mend}", mend).replace("{similar}", similar).replace("{given}", given)
    found = lint_text(SETUPS["distributed"] + code, select=("DDP412",))
    return [one.code for one in found]


@pytest.mark.parametrize(("mend", "similar", "given"), ALL)
def test_what_all_ranks_gave_meets_in_the_loss(
    mend: str, similar: str, given: str, lint_text: Lint
) -> None:
    assert _codes(lint_text, mend, similar, given) == []


@pytest.mark.parametrize(("mend", "similar", "given"), OWN)
def test_what_else_is_gathered_changes_nothing(
    mend: str, similar: str, given: str, lint_text: Lint
) -> None:
    assert _codes(lint_text, mend, similar, given) == ["DDP412"]
