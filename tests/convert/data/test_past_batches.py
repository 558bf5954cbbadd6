"""Batches that are used after their loader has given the next one, which may be smaller."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, added, convert_text

TAKEN_AHEAD = """\
class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.preload()

    def preload(self):
        self.coming = next(self.loader, (None, None))

    def next(self):
        a, b = self.coming
        self.preload()
        return a, b


ahead = Prefetcher(feed)
a, b = ahead.next()
while a is not None:
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
    a, b = ahead.next()
"""
TAKEN_TWICE = """\
going = iter(feed)
a, b = next(going)
for step in range(3):
    c, d = next(going)
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
    a, b = c, d
"""
OF_THE_ROUND_BEFORE = """\
before = None
for a, b in feed:
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    if before is not None:
        penalty = penalty + F.cross_entropy(brain(before[0]), before[1])
    penalty.backward()
    rule.step()
    before = (a, b)
"""
ALL = [TAKEN_AHEAD, TAKEN_TWICE, OF_THE_ROUND_BEFORE]


@pytest.mark.parametrize("text", ALL)
def test_a_batch_after_the_next_one_came_becomes_the_current_one(tmp_path: Path, text: str) -> None:
    rows = "before[0]" if text is OF_THE_ROUND_BEFORE else "a"
    lines = added(tmp_path, HEAD + text)
    loss = f"F.cross_entropy(brain({rows}), {'b' if rows == 'a' else 'before[1]'})"
    at = lines.index(f"dd.use_batch_of({rows})")
    assert lines[at + 1].endswith(f"dd.mean({loss})")


MIXED = {
    "two in one line": "penalty = F.mse_loss(brain(a).mean(0), brain(before[0]).mean(0))",
    "two in a function": "penalty = both(a, before[0])",
}


@pytest.mark.parametrize("name", MIXED)
def test_two_batches_of_one_loader_in_one_line_are_refused(tmp_path: Path, name: str) -> None:
    both = "def both(x, z):\n    return brain(x).std() * brain(z).std()\n\n\n"
    text = OF_THE_ROUND_BEFORE.replace("penalty = penalty + ", f"{MIXED[name]} + ")
    with pytest.raises(Refusal, match="has given the next one"):
        convert_text(tmp_path, HEAD + both + text)


def test_an_entry_that_a_name_tells_is_refused(tmp_path: Path) -> None:
    text = "one, other = 0, 1\n" + OF_THE_ROUND_BEFORE.replace("before[0]", "before[one]")
    with pytest.raises(Refusal, match="has given the next one"):
        convert_text(tmp_path, HEAD + text.replace("before[1]", "before[other]"))


def test_a_batch_beside_one_that_an_argument_takes_is_an_earlier_one(tmp_path: Path) -> None:
    text = TAKEN_TWICE.replace("    c, d = next(going)\n", "").replace(
        "a, b = c, d", "(a, b), _ = next(going), next(going)"
    )
    assert "dd.use_batch_of(a)" in added(tmp_path, HEAD + text)


@pytest.mark.parametrize("text", ALL)
def test_batches_of_one_size_may_be_taken_ahead(tmp_path: Path, text: str) -> None:
    even = HEAD.replace("batch_size=6, shuffle=True", "batch_size=6, shuffle=True, drop_last=True")
    assert any("dd.mean(" in line for line in added(tmp_path, even + text))


def test_an_inner_loop_over_results_takes_no_batch(tmp_path: Path) -> None:
    loop = """\
for a, b in feed:
    rule.zero_grad()
    total = 0
    for out in [brain(a), brain(2 * a)]:
        total += F.cross_entropy(out, b)
    total.backward()
    rule.step()
"""
    assert any("dd.mean(" in line for line in added(tmp_path, HEAD + loop))


FIXED = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(52, 6)
loader = DataLoader(TensorDataset(inputs, inputs[:, 0] > 0), batch_size=8, shuffle=True)
model = nn.Linear(6, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fixed, _ = next(iter(loader))
for epoch in range(2):
    for i, (x, _) in enumerate(loader):
        loss = ((model(x) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            again = model(fixed)
            INSIDE
        OUTSIDE
"""
READS = [
    "print(((again - fixed) ** 2).mean().item())",
    "torch.save(again, f'{epoch}_{i}.pt')",
    "print(again[:3].sum().item(), len(again))",
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("place", ["INSIDE", "OUTSIDE"])
def test_fixed_samples_of_an_earlier_batch_are_read_as_rows_of_it(
    trial: Trial, read: str, place: str
) -> None:
    text = FIXED.replace(place, read).replace("INSIDE", "pass").replace("OUTSIDE", "pass")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


KEPT = """\
import torch
import torch.nn as nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randn(22, 4), torch.randn(22, 4)), batch_size=6)
model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def attack(x, y):
    delta = torch.zeros_like(x).requires_grad_()
    mse_loss(model(x + delta), y).backward()
    optimizer.zero_grad()
    return 0.1 * torch.sign(delta.grad.detach())


for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        if i == 0:
            first = x, y
        d = attack(x, y)
        loss = mse_loss(model(x + d), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
        INSIDE
    OUTSIDE
"""
CALLED = [
    "x, y = first; d = attack(x, y); print(mse_loss(model(x + d), y).item())",
    "u, v = first; d = attack(u, v); print(mse_loss(model(u + d), v).item())",
    "u, v = first; d, n = attack(u, v), len(u); print(d.abs().sum().item() / n)",
    "u, v = first; d = e = attack(u, v); print(mse_loss(model(u + e), v).item())",
    "d = attack(first[0], first[1]); print(d.pow(2).sum().item())",
]


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("place", ["INSIDE", "OUTSIDE"])
def test_the_rows_that_a_call_reads_say_which_batch_it_uses(
    trial: Trial, called: str, place: str
) -> None:
    """And not the name that its result gets, which holds that of another batch before."""
    lines = called.replace("; ", "\n" + " " * (8 if place == "INSIDE" else 4))
    text = KEPT.replace(place, lines).replace("INSIDE", "pass").replace("OUTSIDE", "pass")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
