"""A training that is cut at every step and goes on equals one that nothing disturbed.

Scripts are put together from kinds of state that outlive a round. They print, and save, all that
they hold; both must be the same bit for bit.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ddpify.errors import DdpifyError
from tests.conftest import FIXTURES
from tests.convert.examples import convert_text
from tests.warm import Server, warm_processes

IMPORTS = """\
import argparse, copy, random
from collections import Counter, OrderedDict, defaultdict, deque
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

"""
START = """\
torch.manual_seed(3)
features, labels = torch.randn(11, 4), torch.randint(0, 3, (11,))
feed = DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=SHUFFLE)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1, momentum=0.9)
"""
LOOP = """\
for epoch in range(2):
    for a, b in feed:
        rule.zero_grad()
        penalty = F.cross_entropy(brain(a), b)
        penalty.backward()
        rule.step()
        w = brain.weight.detach()
"""
TWIN = "ema = copy.deepcopy(brain)\n"
PAIRS = "for e, p in zip(ema.parameters(), brain.parameters()):\n"
GRADLESS = "with torch.no_grad():\n    for e, p in zip(ema.parameters(), brain.parameters()):\n"
SHADOW = "shadow = [p.detach().clone() for p in brain.parameters()]\n"
TABLE = "shadow = {k: v.clone() for k, v in brain.state_dict().items()}\n"
METER = """\
class Meter:
    def __init__(self):
        self.n, self.seen, self.mean = 0, [], torch.zeros(4)
    def update(self, w):
        self.n += 1
        self.seen.append(self.n)
        self.mean.mul_(0.9).add_(w)
"""
BEST = """\
class Best:
    def __init__(self):
        self.value, self.late = None, False
    def take(self, value, w):
        if self.value is None or value < self.value:
            self.value, self.copy = value, w.clone()
"""

# What is made before the loop, what a round does, and what is held in the end.
STATES = {
    "EMA by lerp_": (TWIN, GRADLESS + "        e.lerp_(p, 0.1)\n", "ema.state_dict()"),
    "EMA by mul_ and add_": (
        TWIN, GRADLESS + "        e.mul_(0.9).add_(p, alpha=0.1)\n", "ema.state_dict()"),
    "EMA by copy_": (TWIN, GRADLESS + "        e.copy_(0.9 * e + 0.1 * p)\n", "ema.state_dict()"),
    "EMA by .data": (
        TWIN, PAIRS + "    e.data = 0.9 * e.data + 0.1 * p.data\n", "ema.state_dict()"),
    "EMA by +=": (TWIN, GRADLESS + "        e += 0.1 * (p - e)\n", "ema.state_dict()"),
    "EMA by _foreach_lerp_": (
        TWIN, "with torch.no_grad():\n    torch._foreach_lerp_("
        "list(ema.parameters()), list(brain.parameters()), 0.1)\n", "ema.state_dict()"),
    "EMA through state_dict()": (
        TWIN, "now = brain.state_dict()\nfor k, v in ema.state_dict().items():\n"
        "    v.copy_(0.9 * v + 0.1 * now[k])\n", "ema.state_dict()"),
    "EMA through named_parameters()": (
        TWIN, "now = dict(brain.named_parameters())\nwith torch.no_grad():\n"
        "    for k, v in ema.named_parameters():\n        v.lerp_(now[k], 0.1)\n",
        "ema.state_dict()"),
    "EMA by load_state_dict": (
        TWIN, "if epoch == 0:\n    ema.load_state_dict(brain.state_dict())\n",
        "ema.state_dict()"),
    "EMA by a function": (
        TWIN + "def follow(t, s):\n    with torch.no_grad():\n"
        "        for e, p in zip(t.parameters(), s.parameters()):\n            e.lerp_(p, 0.1)\n",
        "follow(ema, brain)\n", "ema.state_dict()"),
    "a list of tensors": (
        SHADOW, "for e, p in zip(shadow, brain.parameters()):\n    e.lerp_(p.detach(), 0.1)\n",
        "shadow"),
    "a dictionary of tensors": (
        TABLE, "for k, v in brain.state_dict().items():\n    shadow[k].lerp_(v, 0.1)\n", "shadow"),
    "a dictionary whose tensors are replaced": (
        TABLE, "for k, v in brain.state_dict().items():\n"
        "    shadow[k] = 0.9 * shadow[k] + 0.1 * v\n", "shadow"),
    "a list with one tensor several times": (
        "places = [torch.zeros(4)] * 3\n", "places[epoch] = places[epoch] + w[0]\n", "places"),
    "a list of a model's own parameters": (
        "own = list(brain.parameters())\n", "with torch.no_grad():\n    own[0].mul_(0.99)\n",
        "own"),
    "a memory bank": (
        "bank, at = torch.zeros(5, 4), 0\n", "bank[at] = w[0]\nat = (at + 1) % 5\n", "[bank, at]"),
    "a memory bank through a view": (
        "bank = torch.zeros(5, 4)\n", "row = bank[epoch]\nrow.add_(w[0])\n", "bank"),
    "a centre": ("centre = torch.zeros(4)\n", "centre.mul_(0.9).add_(w[0])\n", "centre"),
    "a centre by +=": ("centre = torch.zeros(4)\n", "centre += w[0]\n", "centre"),
    "out=": ("total = torch.zeros(4)\n", "torch.add(total, w[0], out=total)\n", "total"),
    "a counter in a list": ("seen = [0]\n", "seen[0] += 1\n", "seen"),
    "an array": ("hits = np.zeros(3)\n", "hits[epoch] += 1\n", "hits.tolist()"),
    "a deque": ("last = deque(maxlen=3)\n", "last.append(penalty.item())\n", "list(last)"),
    "a defaultdict": (
        "lists = defaultdict(list)\n", "lists[epoch].append(epoch)\n", "dict(lists)"),
    "a nested dictionary": (
        "tree = {'a': {'b': []}}\n", "tree['a']['b'].append(epoch)\n", "tree"),
    "a namespace": ("ns = argparse.Namespace(n=0)\n", "ns.n += 1\n", "ns.n"),
    "a closure": (
        "box = {'n': 0}\ndef bump():\n    box['n'] += 1\n", "bump()\n", "box"),
    "an object": (METER + "m = Meter()\n", "m.update(w[0])\n", "[m.n, m.seen, m.mean]"),
    "objects in a list": (
        METER + "ms = [Meter(), Meter()]\n", "for m in ms:\n    m.update(w[0])\n",
        "[[m.n, m.seen, m.mean] for m in ms]"),
    "attributes that a round replaces, or makes": (
        BEST + "best = Best()\n", "best.take(penalty.item(), w)\nbest.late = epoch > 0\n",
        "[best.value, best.copy, best.late]"),
    "BatchNorm outside of the model": (
        "extra = nn.BatchNorm1d(4)\n", "extra(w)\n", "extra.state_dict()"),
    "a torch generator": (
        "g = torch.Generator().manual_seed(1)\nr = [0.0]\n",
        "r[0] += torch.rand(1, generator=g).item()\n", "r"),
    "a Python generator of random numbers": (
        "chance = random.Random(1)\nr = [0.0]\n", "r[0] += chance.random()\n", "r"),
    "a NumPy generator": (
        "chance = np.random.default_rng(1)\nr = [0.0]\n", "r[0] += chance.random()\n", "r"),
    "a frozen object that is replaced": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass S:\n    n: int = 0\n"
        "s = S()\n", "s = dataclasses.replace(s, n=s.n + 1)\n", "s.n"),
    "momentum by parameters": (
        "mom = {p: torch.zeros_like(p) for p in brain.parameters()}\n",
        "for p in brain.parameters():\n    mom[p].mul_(0.5).add_(p.grad)\n", "list(mom.values())"),
    "schedulers in a list": (
        "plans = [torch.optim.lr_scheduler.StepLR(rule, 2, 0.5)]\n",
        "for p in plans:\n    p.step()\n", "plans[0].last_epoch"),
    "an object in an object in a dictionary": (
        METER + "class Two:\n    def __init__(self):\n        self.parts = {'a': Meter()}\n"
        "two = Two()\n", "two.parts['a'].n += 1\n", "two.parts['a'].n"),
    "a hook that counts": (
        "calls = [0]\ndef hook(m, i, o):\n    calls[0] += 1\nbrain.register_forward_hook(hook)\n",
        "pass\n", "calls"),
    "a context and an operator": (
        "class C:\n    def __init__(self):\n        self.n = 0\n    def __enter__(self):\n"
        "        self.n += 1\n    def __exit__(self, *a):\n        pass\n"
        "    def __lshift__(self, v):\n        self.n += v\nc = C()\n",
        "with c:\n    c << 2\n", "c.n"),
    "records that the rounds make": (
        METER + "ms = []\n", "ms.append(Meter())\nms[0].update(w[0])\n",
        "[[m.n, m.seen, m.mean] for m in ms]"),
    "a layer's attribute": (
        "drop = nn.Dropout(0.5)\n", "drop.p *= 0.9\n", "drop.p"),
    "a list that a generator shuffles": (
        "chance, order = np.random.RandomState(1), [1, 2, 3, 4]\n", "chance.shuffle(order)\n",
        "order"),
    "a spectral norm": (
        "sn = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))\n", "sn(a)\n",
        "sn.state_dict()"),
    "all global streams": (
        "r = [0.0]\n", "r[0] += random.random() + np.random.rand() + torch.rand(1).item()\n", "r"),
}  # fmt: skip


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def script(name: str, *, in_function: bool, shuffle: bool) -> str:
    made, inside, held = STATES[name]
    show = f"        print(epoch, penalty.item(), {held})\n"
    body = START.replace("SHUFFLE", str(shuffle)) + made + LOOP + indented(inside, 8) + show
    body += f"torch.save([brain.state_dict(), rule.state_dict(), {held}], 'end.pt')\n"
    if in_function:
        body = "def main():\n" + indented(body, 4) + "main()\n"
    return IMPORTS + "random.seed(1)\nnp.random.seed(1)\n" + body


# What the head of a round computes, and a step or the end of the round reads.
HEADS = {
    "a drawn number": "{} = random.random()\n",
    "a number drawn by NumPy": "{} = np.random.rand()\n",
    "a number of a drawn one": "drawn = random.random()\n{} = drawn * 2 + 1\n",
    "a chosen number": "{} = random.choice([1, 2, 3, 4, 5, 6, 7])\n",
    "a text by a drawn number": (
        "if random.random() < 0.5:\n    {} = 'low'\nelse:\n    {} = 'high'\n"),
    "a text by a conditional expression": (
        "other = random.random()\n{} = 'a' if other < 0.5 else 'b'\n"),
    "a dictionary": "{} = {{'p': random.random(), 'q': [random.random()]}}\n",
    "a tuple": "{} = (random.random(), 1)\n",
    "a norm of the weights": "{} = brain.weight.norm().item()\n",
    "a copy of the weights": "{} = {{k: v.clone() for k, v in brain.state_dict().items()}}\n",
    "an attribute": "{} = counted.n\n",
    "an item": "{} = log['n']\n",
    "a rate": "{} = rule.param_groups[0]['lr']\n",
    "the number of the round": "{} = epoch * 10\n",
    "a setting": "{} = settings.n + 1\n",
}  # fmt: skip


def head_script(form: str) -> str:
    """The head's values are read in the steps, after them, or in a function that gets them."""
    names = [f"h{number}" for number in range(len(HEADS))]
    heads = "".join(text.replace("{}", n) for text, n in zip(HEADS.values(), names, strict=True))
    heads = heads.replace("{{", "{").replace("}}", "}")
    before = (
        "counted, settings = argparse.Namespace(n=0), argparse.Namespace(n=3)\nlog = {'n': 0}\n"
    )
    step = "counted.n += 1\nlog['n'] += 1\nrule.param_groups[0]['lr'] *= 0.9\n"
    show = f"print(epoch, penalty.item(), {', '.join(names)})\n"
    body = LOOP.split("\n", 1)[1] + indented(step, 8)
    body += indented(show, 4 if form == "after" else 8)
    text = START.replace("SHUFFLE", "True") + before
    if form == "function":
        text += f"def steps({', '.join(names)}, epoch):\n" + body
        body = f"    steps({', '.join(names)}, epoch)\n"
    text += "for epoch in range(2):\n" + indented(heads, 4) + body
    end = "torch.save([brain.state_dict(), rule.state_dict()], 'end.pt')\n"
    return IMPORTS + "random.seed(1)\nnp.random.seed(1)\n" + text + end


class Jobs:
    """The process that runs scripts; it imports PyTorch once for all of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(self, script: Path, folder: Path, *, cut: bool) -> tuple[str, Any, int]:
        """What a script prints and saves, and how often it was cut."""
        assert self.process.stdin
        assert self.process.stdout
        folder.mkdir()
        self.process.stdin.write(json.dumps([str(script), str(folder), cut]) + "\n")
        self.process.stdin.flush()
        status, cuts = json.loads(self.process.stdout.readline())
        assert status == 0, (folder / "errors.txt").read_text()
        end = torch.load(folder / "end.pt", weights_only=False)
        return (folder / "printed.txt").read_text(), end, cuts


@pytest.fixture(scope="module")
def jobs(server: Server | None) -> Iterator[Jobs]:
    with warm_processes(server):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cut_runs"],
            cwd=FIXTURES.parent,
            env={"PYTHONPATH": str(FIXTURES.parent), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    with process:
        yield Jobs(process)


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


@pytest.mark.parametrize("name", STATES)
def test_a_training_cut_at_every_step(name: str, jobs: Jobs, tmp_path: Path) -> None:
    chance = random.Random(name)
    text = script(name, in_function=chance.random() < 0.5, shuffle=chance.random() < 0.5)
    assert_same_when_cut(text, jobs, tmp_path)


@pytest.mark.parametrize("form", ["inside", "after", "function"])
def test_what_the_head_of_a_round_computes(form: str, jobs: Jobs, tmp_path: Path) -> None:
    """The head runs again after a restart, with streams and objects as they are then."""
    assert_same_when_cut(head_script(form), jobs, tmp_path)


@pytest.mark.parametrize("in_function", [False, True])
def test_what_each_round_of_an_outer_loop_makes(
    in_function: bool, jobs: Jobs, tmp_path: Path
) -> None:
    """Each fold has a model, an optimizer and a meter of its own, which its epochs change."""
    made = START.replace("SHUFFLE", "True").splitlines(keepends=True)
    take = indented("best.take(penalty.item(), w)\nprint(epoch, best.value)\n", 8)
    fold = "".join(made[3:]) + "best = Best()\n" + LOOP + take
    fold += "scores.append([best.value, best.copy, rule.state_dict()])\n"
    before = IMPORTS + "".join(made[:3]) + BEST + "scores = []\n"
    if in_function:
        before, fold = before + "def fit():\n" + indented(fold, 4), "fit()\n"
    text = before + "for number in range(2):\n" + indented(fold, 4)
    assert_same_when_cut(text + "torch.save(scores, 'end.pt')\n", jobs, tmp_path)


def assert_same_when_cut(text: str, jobs: Jobs, tmp_path: Path) -> None:
    """A training that goes on after each snapshot prints and saves what an undisturbed one does."""
    done = convert_text(tmp_path, text, resume=True, snapshot_steps=1)
    converted = tmp_path / "train_ddp.py"
    converted.write_bytes(done.data)
    printed, held, _ = jobs.run(converted, tmp_path / "undisturbed", cut=False)
    again, kept, cuts = jobs.run(converted, tmp_path / "cut", cut=True)
    assert again == printed
    assert equal(held, kept)
    # Two epochs of two steps; the loop over epochs may take snapshots of its own, too.
    assert cuts >= 3


NOT_HELD = {
    "an iterator": ("names = iter(range(99))\n", "print(next(names))\n", "an iterator"),
    "a generator": ("names = (i for i in range(99))\n", "print(next(names))\n", "an iterator"),
    "an attribute of a function": (
        "def f():\n    pass\nf.n = 0\n", "f.n += 1\n", "an attribute of a function"),
    "a generator that gets values": (
        "def f():\n    n = 0\n    while True:\n        n += yield n\nrun = f()\nnext(run)\n",
        "run.send(1)\n", "an iterator"),
    "a variable of an enclosing function": (
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    return g\n"
        "g = f()\n", "g()\n", "an outer variable"),
    "a default value": (
        "def f(v, seen=[]):\n    seen.append(v)\n", "f(1)\n", "a default value"),
    "an attribute of an object's class": (
        "class C:\n    n = 0\n    def up(self):\n        type(self).n += 1\nc = C()\n", "c.up()\n",
        "of a function or class"),
    "an attribute of a class": ("class C:\n    n = 0\n", "C.n += 1\n", "of a function or class"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_HELD)
def test_what_cannot_be_held_is_refused(name: str, tmp_path: Path) -> None:
    made, inside, words = NOT_HELD[name]
    text = IMPORTS + START.replace("SHUFFLE", "True") + made + LOOP + indented(inside, 8)
    with pytest.raises(DdpifyError, match=words) as refusal:
        convert_text(tmp_path, text, resume=True)
    assert refusal.value.line
