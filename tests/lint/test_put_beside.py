"""A rank's own part beside those that it has gathered: the loss trains through it."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        z = model(x.to(device))
        parts = [torch.zeros_like(z) for _ in range(world_size)]
        dist.all_gather(parts, z)
        every = torch.cat({})
        criterion(z @ every.t(), torch.arange(len(z), device=device)).backward()
        optimizer.step()
"""
BESIDE = [
    "[z] + parts[:rank] + parts[rank + 1 :]",
    "parts[:rank] + [z] + parts[rank + 1 :]",
    "[*parts[:rank], z, *parts[rank + 1 :]]",
]
WITHOUT = [
    "parts",
    "parts[:rank] + parts[rank:]",
    "parts[:rank] + [z.detach()] + parts[rank + 1 :]",
]


@pytest.mark.parametrize("put", BESIDE)
def test_its_own_part_among_them(lint_text: Lint, put: str) -> None:
    assert not lint_text(SETUPS["distributed"] + SCRIPT.format(put), select=("DDP411",))


@pytest.mark.parametrize("put", WITHOUT)
def test_theirs_alone(lint_text: Lint, put: str) -> None:
    assert lint_text(SETUPS["distributed"] + SCRIPT.format(put), select=("DDP411",))
