"""A data set that writes something down for its next sample gives every rank all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file

SCRIPT = """
import collections
import itertools
import types

import torch
from torch.utils.data import DataLoader, Dataset

SEEN = 0


class Held(Dataset):
    total = 0

    def __init__(self, size):
        self.rows, self.goals = torch.rand(size, 4), torch.rand(size, 4)
        {start}

    def __len__(self):
        return len(self.rows)

    def count(self, by=1):
        self.n = self.n + by

    def __getitem__(self, i):
        {lines}
        return self.rows[i] * {used} / 50, self.goals[i]


torch.manual_seed(0)
loader = DataLoader(Held(22), batch_size=5, shuffle=True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
CARRIED = [
    ("self.n = 0", "self.n += 1", "self.n"),
    ("pass", "self.n = getattr(self, 'n', 0) + 1", "self.n"),
    ("pass", "self.n = self.n + 1 if hasattr(self, 'n') else 1", "self.n"),
    ("self.n = 0", "setattr(self, 'n', self.n + 1)", "self.n"),
    ("self.n = 0", "vars(self)['n'] = self.n + 1", "self.n"),
    ("self.n = {}", "self.n['k'] = self.n.get('k', 0) + 1", "self.n['k']"),
    ("self.n = []", "self.n.append(i)", "len(self.n)"),
    ("self.n = set()", "self.n.add(i)", "len(self.n)"),
    ("self.n = collections.deque(maxlen=3)", "self.n.append(i)", "sum(self.n)"),
    ("pass", "Held.total += 1", "self.total"),
    ("pass", "type(self).total += 1", "self.total"),
    ("pass", "global SEEN; SEEN += 1", "SEEN"),
    ("self.n = 0", "self.count(); self.count(2)", "self.n"),
    ("self.n = 0", "m = self.n + 1; self.n = i", "m"),
    ("self.n = None", "m = i if self.n is None else self.n; self.n = i", "(m + 1)"),
    ("self.n = None", "self.n = i if self.n is None else self.n", "(self.n + 1)"),
    ("self.n = types.SimpleNamespace(k=0)", "self.n.k += 1", "self.n.k"),
    ("self.n = [0, 0]", "self.n[i % 2] += 1", "self.n[0]"),
    ("self.n = {}", "m = self.n.get(i % 3, 1); self.n[i % 3] = i + m", "m"),
    ("self.seen = set()", "m = 2 if i % 5 in self.seen else 1; self.seen.add(i % 5)", "m"),
]
THE_SAME_IN_ANY_ORDER = [
    ("self.n = 0", "self.n += 1", "2"),
    ("self.n = []", "self.n.append(i)", "2"),
    ("self.n = None", "self.n = i; self.n += 1", "self.n"),
    ("self.n = None", "self.n = []; self.n.append(i)", "len(self.n)"),
    ("self.n = 0", "self.n = i; self.count()", "self.n"),
    ("self.n = None", "self.n = self.n or len(self.rows)", "self.n"),
    ("self.n = None", "if self.n is None: self.n = len(self.rows)", "self.n"),
    ("self.n = {}", "if i not in self.n: self.n[i] = i + 1", "self.n[i]"),
    ("self.n = {}", "self.n[i] = i + 1", "self.n[i]"),
    ("self.n = [None] * 22", "if self.n[i] is None: self.n[i] = i + 1", "self.n[i]"),
    ("self.n = {}", "k = str(i); if k not in self.n: self.n[k] = i + 1", "self.n[k]"),
    (
        "self.n = collections.OrderedDict()",
        "k = str(i); m = self.n.get(k); if m is None: self.n[k] = m = i + 1; "
        "if len(self.n) > 5: self.n.popitem(last=False)",
        "m",
    ),
    ("self.n = {}", "m = self.n.setdefault(i, i + 1)", "m"),
    ("self.size = 2", "m = self.size", "m"),
]


def written(start: str, lines: str, used: str) -> str:
    """The script of a data set with these lines."""
    block = "\n        ".join(lines.split("; "))
    return SCRIPT.replace("{start}", start).replace("{lines}", block).replace("{used}", used)


@pytest.mark.parametrize(("start", "lines", "used"), CARRIED)
def test_every_rank_takes_all_samples(trial: Trial, start: str, lines: str, used: str) -> None:
    verdict = trial.verdict(written(start, lines, used))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(("start", "lines", "used"), THE_SAME_IN_ANY_ORDER)
def test_each_rank_takes_its_own_samples(
    trial: Trial, tmp_path: Path, start: str, lines: str, used: str
) -> None:
    text = written(start, lines, used)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    path = tmp_path / "script.py"
    path.write_text(text)
    assert 'collate="global"' not in convert_file(path).data.decode()
