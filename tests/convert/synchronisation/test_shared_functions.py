"""Functions that get the parts of ranks in one call, and in another what is whole already."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import HEAD, STEP, added

HITS = """\
def hits(out, kinds):
    return (out.argmax(1) == kinds).sum().item()


"""


def test_what_is_evaluated_without_a_loader(tmp_path: Path) -> None:
    body = STEP + "    print(hits(brain(a), b))\nfor i in range(5):\n"
    body += "    print(hits(brain(features[i : i + 1]), labels[i : i + 1]))\n"
    lines = added(tmp_path, HITS + HEAD + body)
    assert "print(hits(dd.gather(brain(a)), dd.gather(b)))" in lines
    assert not any("dd.sum" in line for line in lines)


DISTANCES = """\
def distances(rows):
    square = rows.pow(2).sum(1)
    return square.unsqueeze(1) + square.unsqueeze(0) - 2 * rows @ rows.t()


def of_unit_length(rows):
    unit = F.normalize(rows)
    return distances(unit)


"""


def test_what_another_loss_has_gathered_is_not_gathered_again(tmp_path: Path) -> None:
    body = "    out = brain(a)\n    penalty = (of_unit_length(out) + distances(out)).mean()\n"
    plain = "    penalty = F.cross_entropy(brain(a), b)\n"
    check = "for a, b in check:\n    print(of_unit_length(brain(a)).max())\n"
    lines = added(tmp_path, DISTANCES + HEAD + STEP.replace(plain, body) + check)
    assert "out = dd.gather(brain(a))" in lines
    assert not any("F.normalize" in line or "square" in line for line in lines)


KEEPER = """\
class Keeper:
    def __init__(self):
        self.kept = dict(loss=[], out=[])

    def insert(self, **given):
        for key in given:
            self.kept[key].append(given[key])


keeper = Keeper()
"""


def test_a_line_that_keeps_a_mean_in_one_call_and_a_sum_in_another(tmp_path: Path) -> None:
    body = KEEPER + STEP + "    keeper.insert(loss=penalty.data)\n"
    body += "    keeper.insert(out=brain(a).mean(0).data)\n    keeper.insert(out=a.sum())\n"
    lines = added(tmp_path, HEAD + body)
    assert "keeper.insert(out=dd.mean(brain(a).mean(0).data))" in lines
    assert "keeper.insert(out=dd.sum(a.sum()))" in lines


TALLY = """\
class Tally:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, one, n):
        self.sum += one * n
        self.count += n


tally = Tally()
"""


def test_one_line_that_counts_for_many_calls(tmp_path: Path) -> None:
    calls = 30  # more than there are rounds of decisions
    body = STEP + "    tally.update(penalty.item(), a.size(0))\n" * calls
    lines = added(tmp_path, HEAD + TALLY + body + "print(tally.sum / tally.count)\n")
    assert lines.count("tally.update(penalty.item(), dd.global_batch_size(a))") == calls


LOGGED = """\
import random
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Pool:
    def __init__(self):
        self.kept = []

    def swap(self, rows):
        swapped = []
        for row in rows.data:
            row = row.unsqueeze(0)
            if len(self.kept) < 9:
                self.kept.append(row)
                swapped.append(row)
            elif random.random() > 0.5:
                i = random.randint(0, 8)
                swapped.append(self.kept[i].clone())
                self.kept[i] = row
            else:
                swapped.append(row)
        return torch.cat(swapped)


class Log:
    def __init__(self):
        self.totals = {}

    def add(self, losses):
        for name in losses:
            if name in self.totals:
                self.totals[name] += losses[name].data
            else:
                self.totals[name] = losses[name].data
        print({name: total.item() for name, total in self.totals.items()})


torch.manual_seed(0)
feed = DataLoader(TensorDataset(torch.randn(22, 4), torch.randn(22, 3)), batch_size=5, shuffle=True)
maker, judge = nn.Linear(4, 3), nn.Linear(3, 1)
first = torch.optim.SGD(maker.parameters(), lr=0.1)
second = torch.optim.SGD(judge.parameters(), lr=0.1)
pool, log = Pool(), Log()
for epoch in range(3):
    for a, b in feed:
        first.zero_grad()
        made = maker(a)
        shape, style = F.mse_loss(made, b), -judge(made).mean()
        (shape + style).backward()
        first.step()
        second.zero_grad()
        of_judge = judge(pool.swap(made)).pow(2).mean() + (judge(b) - 1).pow(2).mean()
        of_judge.backward()
        second.step()
        log.add({"shape": shape, "style": style, "judge": of_judge})
"""


def test_a_log_goes_through_the_names_of_the_losses(tmp_path: Path) -> None:
    lines = added(tmp_path, LOGGED)
    assert "self.totals[name] += dd.mean(losses[name].data)" in lines
    assert not any("mean(name)" in line for line in lines)
    assert any("judge(dd.split(pool.swap(dd.gather(made))))" in line for line in lines)


PARTS = """\
def both(out, kinds):
    near = F.cross_entropy(out, kinds)
    far = out.pow(2).sum()
    far /= 60
    return near + far


def fit():
    for a, b in feed:
        rule.zero_grad()
        both(brain(a), b).backward()
        rule.step()


"""
WHOLE_CHECKS = {
    "a loop": "def look():\n    for a, b in check:\n{}",
    "a counted loop": "def look():\n    for i, (a, b) in enumerate(check):\n{}",
    "a single batch": "def look():\n    if True:\n        a, b = next(iter(check))\n{}",
}


@pytest.mark.parametrize("how", ["a loop", "a counted loop", "a single batch"])
def test_batches_that_every_rank_gets_whole_pass_a_reduction_unchanged(
    tmp_path: Path, how: str
) -> None:
    use = "        out = brain(a)\n        print(both(out, b), out[2])\n"
    body = PARTS + WHOLE_CHECKS[how].format(use) + "\n\nfit()\nlook()\n"
    lines = added(tmp_path, HEAD + body)
    assert "near = dd.mean(F.cross_entropy(out, kinds))" in lines
    assert "far = dd.sum(out.pow(2).sum())" in lines


CHOSEN = """\
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def distance(pred, true, lowest=None):
    if lowest is not None:
        mask = torch.gt(true, lowest)
        pred = torch.masked_select(pred, mask)
        true = torch.masked_select(true, mask)
    return torch.mean(torch.abs(true - pred))


def masked(lowest):
    def loss(pred, true):
        return distance(pred, true, lowest)
    return loss


class Trainer:
    def __init__(self, net, rate, feed, check):
        self.net, self.rate, self.feed, self.check = net, rate, feed, check
        self.rule = torch.optim.SGD(net.parameters(), lr=0.01)

    def validate(self):
        total = 0
        with torch.no_grad():
            for a, b in self.check:
                total += self.rate(self.net(a), b).item()
        return total

    def train(self):
        for a, b in self.feed:
            self.rule.zero_grad()
            rated = self.rate(self.net(a), b)
            rated.backward()
            self.rule.step()
        print(self.validate())

    def test(self):
        made, true = [], []
        with torch.no_grad():
            for a, b in self.check:
                made.append(self.net(a))
                true.append(b)
        print(distance(torch.cat(made), torch.cat(true), 0.0).item())


def feeder(a, b):
    return DataLoader(TensorDataset(a, b), batch_size=7)


rate = masked(0.0) if len(sys.argv) > 1 else nn.L1Loss()
rows = torch.randn(40, 4)
trainer = Trainer(nn.Linear(4, 4), rate, feeder(rows, rows + 1), feeder(rows, rows))
trainer.train()
trainer.test()
"""


def test_a_loss_that_a_setting_chooses_gets_the_rows_of_all_ranks(tmp_path: Path) -> None:
    """One divides by what a mask left, and gets whole rows in the test; the other does not."""
    lines = added(tmp_path, CHOSEN)
    assert "rated = self.rate(dd.gather(self.net(a)), dd.gather(b))" in lines
    assert "made.append(dd.gather(self.net(a)))" in lines
    assert not any("masked_select" in line or "dd.mean" in line for line in lines)


BY_SETTING = """\
import sys


def near(x, y, how):
    off = (x - y) ** 2
    if how == "mean":
        return off.mean()
    elif how == "sum":
        return off.sum()
    return off.sum(1).mean()


def both(x, y, how):
    rated = near(x, y, how)
    return rated, 0.1 * x.pow(2).sum()


"""
RETURNED = {
    "a number": ("{}penalty = near(brain(a), F.one_hot(b, 3), sys.argv[1])\n", ()),
    "a tuple": (
        "{0}rated, small = both(brain(a), F.one_hot(b, 3), sys.argv[1])\n"
        "{0}penalty = rated + small\n",
        ("small = dd.sum(small)",),
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_a_mean_or_a_sum_is_reduced_where_the_function_returns_it(
    tmp_path: Path, name: str
) -> None:
    body, further = RETURNED[name]
    step = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", body.format("    "))
    lines = added(tmp_path, BY_SETTING + HEAD + step)
    reduced: tuple[str, ...] = ("return dd.mean(off.mean())", "return dd.sum(off.sum())")
    reduced += ("return dd.mean(off.sum(1).mean())", *further)
    assert all(line in lines for line in reduced)
    assert sum("dd.mean" in line or "dd.sum" in line for line in lines) == len(reduced)


GENERATING = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

texts = torch.randint(0, 9, (22, 6))
feed = DataLoader(TensorDataset(texts), batch_size=6, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Embedding(9, 8), nn.Linear(8, 9)

    def forward(self, ids, learn=False):
        if ids.numel() == 0:
            return self.two(torch.zeros(1, 1, 8))
        z = self.two(self.one(ids))
        if not learn:
            return z
        return F.cross_entropy(z[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=0)

    @torch.no_grad()
    def generate(self, seq):
        z = self.forward(seq)[:, -1]
        return torch.cat([seq, z.argmax(-1, keepdim=True)], dim=1)


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.5)
for (a,) in feed:
    loss = brain(a, learn=True)
    loss.backward()
    rule.step()
    rule.zero_grad()
print(brain.generate(texts[:1, :2])[0].tolist())
"""


def test_a_call_without_a_batch_is_kept_whole_where_nothing_else_mends_the_others(
    tmp_path: Path,
) -> None:
    lines = added(tmp_path, GENERATING)
    assert lines[4:] == [
        "return dd.mean(",
        "F.cross_entropy(z[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=0),",
        "weight=(ids[:, 1:] != 0).sum(),",
        ")",
        "with dd.replicated():",
        "z = self.forward(seq)[:, -1]",
        "brain = dd.wrap(Net())",
    ]


JUDGED = """\


one, two = Pool(), Pool()


def compared(real, made):
    return ((judge(real) - 1).pow(2).mean() + judge(made.detach()).pow(2).mean()) * 0.5


for a, b in feed:
    made = maker(a)
    second.zero_grad()
    first_loss = compared(b, one.swap(made))
    second_loss = compared(b.flip(1), two.swap(-made))
    (first_loss + second_loss).backward()
    second.step()
    print(first_loss.item(), second_loss.item())
"""


def test_a_loss_of_rows_that_two_pools_give_back(trial: Trial) -> None:
    """Each pool gets the samples of all ranks; what it gives a model is split again."""
    text = LOGGED.partition("pool, log = ")[0].rstrip() + JUDGED
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert "compared(b, dd.split(one.swap(dd.gather(made))))" in converted
