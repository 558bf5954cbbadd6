"""Calls that each round of a loop over rows makes for what they do: each rank has other rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.divided import assert_same_without_gathering
from tests.soundness.known_forms import script

_SCHEDULE = "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n / 10))"
LOOPS = [
    f"if not epoch:\n    schedule = {_SCHEDULE}\nfor _ in range(len(inputs)):\n    schedule.step()",
    f"if not epoch:\n    schedule = {_SCHEDULE}\n[schedule.step() for row in out]",
    "for _ in range(len(inputs)):\n    for group in optimizer.param_groups:\n"
    "        group['lr'] *= 0.99",
    "if not epoch:\n    average = torch.optim.swa_utils.AveragedModel(model)\n"
    "for _ in out:\n    average.update_parameters(model)\nprint(int(average.n_averaged))",
    "for _ in range(len(inputs)):\n    with torch.no_grad():\n"
    "        for p in model.parameters():\n            p.sub_(0.001 * p)",
    "import heapq\nitems = list(range(50))\n"
    "for _ in out:\n    heapq.heappop(items)\nprint(items[0])",
    "held = [torch.ones(4)]\nfor _ in out:\n    for w in held:\n        w *= 0.9\n"
    "print(held[0].sum())",
    "held = [torch.ones(4)]\nfor _ in out:\n    w = held[0]\n    w.mul_(0.9)\nprint(held[0].sum())",
    "held = {'a': torch.ones(4)}\nfor _ in labels.tolist():\n    for _, w in held.items():\n"
    "        w.mul_(0.9)\nprint(held['a'].sum())",
]
FUNCTIONS = [
    "class Meter:\n    count = 0\n\n    def step(self):\n        self.count += 1\n\n\n"
    "meter = Meter()",
    "count = 0\n\n\ndef step():\n    global count\n    count += 1",
]
USES = [
    "for _ in out:\n    meter.step()\nprint(meter.count)",
    "for _ in out:\n    step()\nprint(count)",
]
FORWARDS = [
    "for _ in h:\n    with torch.no_grad():\n        for p in self.body.parameters():\n"
    "            p.mul_(0.999)",
    "for _ in range(len(h)):\n    b = self.table.data\n    b *= 0.9\nh = h + self.table[0]",
]
COUNTING = [
    "n = [0]\ndef count(row):\n    n[0] += 1\n    return row\n"
    "r = torch.stack([count(row) for row in out])\nprint(n)",
    "n = [0]\ndef count(row):\n    n[0] += 1\n    return row\n"
    "r = torch.stack(list(map(count, out)))\nprint(n)",
    "n = [0]\ndef count(row):\n    n[0] += 1\n    return row\n"
    "for row in out:\n    last = count(row)\nprint(n)",
    "items = list(range(50))\ncollections.deque(map(lambda row: items.pop(), out), maxlen=0)\n"
    "print(len(items))",
    "names = list(range(40))\ndel names[: len(out)]\nprint(names[0])",
    "it = iter(range(1000))\ntaken = list(itertools.islice(it, len(out)))\nprint(taken)",
]
LEFT = [
    "for i, part in enumerate(out.split(2)):\n    last = i\nloss = loss * last",
    "for i, part in enumerate(out.split(2)):\n    pass\nloss = loss * i",
    "for i, pair in enumerate(zip(out.split(2), targets.split(2))):\n    n = 2 * i\n"
    "loss = loss * n",
]
OF_ROWS = [
    "found = []\nfor row in out:\n    model.train()\n    found.append(row.sum())\n"
    "loss = loss + torch.stack(found).mean()",
    "for row in out:\n    for p in model.parameters():\n        p.requires_grad_(True)\n"
    "loss = loss + 0.1 * out.mean()",
]


@pytest.mark.parametrize("lines", LOOPS)
def test_what_they_do_is_done_for_all_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(("made", "lines"), [*zip(FUNCTIONS, USES, strict=True)])
def test_so_do_those_of_the_project(trial: Trial, made: str, lines: str) -> None:
    text = script("loop", lines).replace("torch.manual_seed", f"{made}\n\n\ntorch.manual_seed", 1)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", FORWARDS)
def test_so_it_is_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", COUNTING + LEFT)
def test_so_is_what_goes_by_the_number_of_rounds(trial: Trial, lines: str) -> None:
    text = script("loop", lines).replace("import io\n", "import io\nimport itertools\n", 1)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", OF_ROWS)
def test_what_is_the_same_each_time_stays_divided(trial: Trial, tmp_path: Path, lines: str) -> None:
    assert_same_without_gathering(trial, tmp_path, script("loop", lines))
