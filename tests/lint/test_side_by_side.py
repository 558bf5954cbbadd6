"""Loaders that a training takes from side by side each need a sampler of their own."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

BUILT = """
def build(data):
    return {{
        "labelled": DataLoader(data, 32, sampler=DistributedSampler(data)),
        "unlabelled": DataLoader(data, 32, {}),
    }}

loaders = build(dataset)
"""
LOOP = """
for epoch in range(epochs):
    loaders["labelled"].sampler.set_epoch(epoch)
    for {}:
        loss = criterion(model(x.to(device)), y.to(device)) + model(u.to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
TAKEN = {
    "zip": '(x, y), (u, _) in zip(loaders["labelled"], loaders["unlabelled"])',
    "the other first": '(u, _), (x, y) in zip(loaders["unlabelled"], loaders["labelled"])',
    "counted": 'i, ((x, y), (u, _)) in enumerate(zip(loaders["labelled"], loaders["unlabelled"]))',
}


@pytest.mark.parametrize("taken", TAKEN)
def test_each_loader_is_to_be_split(taken: str, lint_text: Lint) -> None:
    for given, found in (("shuffle=True", True), ("sampler=DistributedSampler(data)", False)):
        text = SETUPS["distributed"] + BUILT.format(given) + LOOP.format(TAKEN[taken])
        assert bool(lint_text(text, select=("DDP101",))) is found
