"""Batches that ``next()`` takes, in a loop that goes over something else."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

ENDLESS = """
from tqdm import tqdm

def endless(batches):
    while True:
        for batch in batches:
            yield batch

def train(batches):
    batches = endless(batches)
    rounds = range(1000)
    if rank == 0:
        rounds = tqdm(rounds)
    for number in rounds:
        x, y = next(batches)
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()

train({loader})
"""


@pytest.mark.parametrize(
    ("loader", "missing"),
    [
        ("DataLoader(dataset, 32, shuffle=True)", True),
        ("DataLoader(dataset, 32, sampler=DistributedSampler(dataset))", False),
        ("DataLoader(unseen(dataset), 32, shuffle=True)", True),
        ("unseen(DataLoader(dataset, 32, shuffle=True))", False),
    ],
)
def test_a_bar_over_numbers_says_nothing(loader: str, missing: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + "from package import unseen\n" + ENDLESS.format(loader=loader)
    assert bool(lint_text(text, select=("DDP101",))) is missing
