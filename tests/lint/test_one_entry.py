"""Entries of one dictionary: a collective on one of them says nothing of the others."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TEXT = """
class Trainer:
    def __init__(self):
        self.logs = {}

    def reduce(self):
        {reduced}

    def epoch(self):
        self.logs["loss"] = torch.zeros(1, device=device)
        self.logs["right"] = torch.zeros(1, device=device)
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.logs["loss"] += loss.detach()
            self.logs["right"] += (out.argmax(1) == y).sum()
        {here}

    def fit(self):
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            self.epoch()
            self.reduce()
            if rank == 0:
                print({shown})

Trainer().fit()
"""
LOSS, RIGHT = 'self.logs["loss"].item()', 'self.logs["right"].item()'
ONE = 'dist.all_reduce(self.logs["loss"])'


@pytest.mark.parametrize("place", ["here", "reduced"])
@pytest.mark.parametrize(
    ("line", "shown", "found"),
    [
        (ONE, LOSS, False),
        (ONE, RIGHT, True),
        (ONE.replace(")", ".detach())"), RIGHT, True),
        (f'{ONE}; dist.all_reduce(self.logs["right"])', f"{LOSS}, {RIGHT}", False),
        ("[dist.all_reduce(one) for one in self.logs.values()]", RIGHT, False),
    ],
)
def test_one_entry(place: str, line: str, shown: str, found: bool, lint_text: Lint) -> None:
    text = TEXT.replace("{shown}", shown)
    for name in ("here", "reduced"):
        text = text.replace(f"{{{name}}}", line if name == place else "pass")
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP405",))) is found


@pytest.mark.parametrize(("key", "found"), [("loss", False), ("right", True)])
def test_an_entry_that_a_function_reduces(key: str, found: bool, lint_text: Lint) -> None:
    text = f"""
def reduce(totals):
    dist.all_reduce(totals["loss"])

totals = {{"loss": torch.zeros(1, device=device), "right": torch.zeros(1, device=device)}}
for x, y in loader:
    totals["loss"] += criterion(model(x), y).detach()
    totals["right"] += (model(x).argmax(1) == y).sum()
reduce(totals)
if rank == 0:
    print(totals["{key}"].item())
"""
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP405",))) is found


def test_a_flag_that_rank_0_sets_in_a_dictionary(lint_text: Lint) -> None:
    text = """
state = {"stop": torch.zeros(1, device=device)}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        state["stop"] = torch.ones(1, device=device)
    dist.broadcast(state["stop"], 0)
    if state["stop"].item() > 0:
        break
"""
    assert lint_text(SETUPS["distributed"] + text, select=("DDP401", "DDP402")) == []
    alone = text.replace("dist.broadcast", "print")
    assert lint_text(SETUPS["distributed"] + alone, select=("DDP401", "DDP402")) != []
