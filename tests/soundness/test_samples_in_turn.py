"""Loops that go on from sample to sample, batches that are parted, places in a collate function."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.known_forms import script

# What a round leaves to the next: a name, a number, an entry, an attribute, an iterator, a list.
LEFT = {
    "name": "last, d = 0, []\nfor p in out:\n    last = 0.5 * last + p\n    d.append(last)",
    "number": "a, d = 1.0, []\nfor p in out:\n    a = a * 0.5\n    d.append(p * a)",
    "entry": "s, d = {'n': 0}, []\nfor p in out:\n    s['n'] += 1\n    d.append(p / s['n'])",
    "list": "q, d = [], []\nfor p in out:\n    d.append(p * len(q))\n    q.append(p)",
    "queue": "q, d = collections.deque(maxlen=2), []\nfor p in out:\n    q.append(p)\n"
    "    d.append(torch.stack(list(q)).mean(0))",
    "attribute": "class Rate:\n    n = 0\n    def scaled(self, p):\n        self.n += 1\n"
    "        return p / self.n\nrate = Rate()\nd = [rate.scaled(p) for p in out]",
    "mapped": "class Mean:\n    v = 0\n    def of(self, p):\n        self.v = 0.5 * self.v + p\n"
    "        return self.v\nmean = Mean()\nd = list(map(mean.of, out))",
    "iterator": "w = iter([0.1, 0.2, 0.3, 0.4, 0.5])\nd = [p * next(w) for p in out]",
    "popped": "w = [0.1, 0.2, 0.3, 0.4, 0.5]\nd = [p * w.pop() for p in out]",
    "own list": "d = []\nfor p in out:\n    d.append(p + (d[-1] if d else 0))",
}
REORDERED = [
    "d = [p.tanh() for p in out]\nd.reverse()\nloss = loss + (torch.stack(d) * targets).mean()",
    "d = list(out)\nd[0] = d[0] * 3\nloss = loss + torch.stack(d).pow(2).mean()",
    "d = [p.tanh() for p in out]\nd = [d[0] + p for p in d]\nloss = loss + torch.stack(d).mean()",
]
WRITTEN = (
    "d, last = torch.zeros_like(out), 0\nfor i in range(len(out)):\n"
    "    last = 0.5 * last + out[i]\n    d[i] = last\nloss = loss + d.pow(2).mean()"
)
# Draws in turn, from generators that all ranks share.
DRAWN = [
    "w = torch.zeros_like(out)\nfor i in range(len(out)):\n    w[i] = torch.rand(4)\n"
    "loss = loss + (w * out).mean()",
    "w = torch.stack([torch.empty(4).normal_(0, 0.1 * n) for n in range(len(out))])\n"
    "loss = loss + (w * out).mean()",
    "np.random.seed(3)\nfor i in range(len(out)):\n    if np.random.rand() < 0.5:\n"
    "        loss = loss + out[i].pow(2).mean()",
    "np.random.seed(3)\nj = np.random.choice(len(out))\nloss = loss + out[j].pow(2).mean()",
    "np.random.seed(3)\nj = torch.tensor([np.random.randint(len(out)) for _ in range(len(out))])\n"
    "loss = loss + F.mse_loss(model(inputs[j]), targets)",
]
PARTED = [
    "h = torch.cat([c - c.mean(0) for c in h.chunk(2)])",
    "d = []\nfor c in h.split(2):\n    d.append(c.softmax(0))\nh = torch.cat(d, 0)",
    "h = torch.cat([c * i for i, c in enumerate(torch.split(h, [1, len(h) - 1]))])",
    "h = torch.cat(h.chunk(2)[::-1])",
    "s = 0\nfor c in h.tensor_split(2):\n    s = s + c.sum()\nh = h + s",
    "h = h + len(h.chunk(2))",
    "h = sum(torch.stack([h, inputs]).unbind(0))",
    "h = torch.stack([p * i for i, p in enumerate(h.unbind())])",
    "d = list(h)\nh = h + d[0]",
]

# What a round makes of its sample and of others: all rows, a statistic, one at a fixed place.
BESIDE_OTHERS = [
    "m = out.mean(0)\nd = [p - m for p in out]",
    "n = len(out)\nd = []\nfor p in out:\n    d.append(p * n)",
    "d = [p / out.norm() for p in out]",
    "d = [torch.cat([p, out.amax(0)]) for p in out]",
    "d = [F.mse_loss(p, out[0]) for p in out]",
    "d = [p * (labels == c).sum() for p, c in zip(out, labels)]",
    "k = out[:2].max()\nd = [p * k for p in out]",
]
OF_EACH = "d = [p / p.max() * targets[i] for i, p in enumerate(out)]"
DRAWN_ALIKE = [
    "h = h * 2 if torch.rand(()) < 0.5 else h",
    "h = h[:, torch.randperm(4)] + torch.randn(h.size(1))",
]

IN_COLLATE = [
    "n = 0\nfor s in samples:\n    n += int(s[2])\ninputs = inputs * n",
    "for s in samples:\n    last = s[0]\ninputs = inputs + last",
    "f = collections.defaultdict(list)\nfor s in samples:\n    f[int(s[2])].append(s[0])\n"
    "inputs = torch.stack([s[0] - sum(f[int(s[2])]) for s in samples])",
    "inputs = torch.stack([s[0] * (i + 1) for i, s in enumerate(samples)])",
    "n, rows = 0, []\nfor s in samples:\n    n += 1\n    rows.append(s[0] * n)\n"
    "inputs = torch.stack(rows)",
    "rows = [s[0] for s in samples]\ninputs = torch.stack(rows[::-1])",
    "rows = [s[0] for s in samples]\nrows.reverse()\ninputs = torch.stack(rows)",
    "rows = [s[0] for s in samples]\ninputs = torch.stack([rows[0] + p for p in rows])",
    "inputs = torch.stack([s[0] * a for s, a in zip(samples, [1, 2, 3, 4, 5])])",
    "w = iter([1, 2, 3, 4, 5])\ninputs = torch.stack([s[0] * next(w) for s in samples])",
    "z = inputs.clone()\nz[torch.randperm(1)] = 0\ninputs = z",
    "inputs = inputs * torch.arange(len(inputs))[:, None]",
    "inputs = inputs + samples[-1][0]",
    "r = torch.tensor([float(i) for i, s in enumerate(samples)])[:, None]",
    "n, r = 0, []\nfor s in samples:\n    r.append([float(n)])\n    n += 1\nr = torch.tensor(r)",
    "def enumerate(x):\n    return zip(x, [3, 1, 4, 1, 5])\n"
    "inputs = torch.stack([s[0] * k for s, k in enumerate(samples)])",
    # What is drawn for the whole batch.
    "inputs = inputs.flip(1) if np.random.rand() < 0.5 else inputs",
    "inputs = inputs * (torch.rand(len(samples), 1) > 0.5)",
    "import random\ninputs = inputs + 0.1 * samples[random.randrange(len(samples))][0]",
    "p = torch.randperm(len(samples))\ninputs = 0.7 * inputs + 0.3 * inputs[p]",
    "inputs = F.dropout(inputs + torch.zeros(4).normal_(), 0.3)",
]
OWN = [
    "z = torch.zeros(len(samples), 4)\n"
    "for i, s in enumerate(samples):\n    z[i, : len(s[0])] = s[0]\ninputs = z",
    "first = samples[0]\ninputs = torch.stack([s[0].reshape(first[0].shape) for s in samples])",
]


@pytest.mark.parametrize("name", LEFT)
def test_rounds_that_go_on_from_earlier_ones_get_all_samples(trial: Trial, name: str) -> None:
    assert_same(trial, "loop", f"{LEFT[name]}\nloss = loss + torch.stack(d).pow(2).mean()")


@pytest.mark.parametrize("name", ["name", "number", "entry", "iterator", "own list"])
def test_so_they_do_in_a_forward(trial: Trial, name: str) -> None:
    assert_same(trial, "forward", f"{LEFT[name].replace('out', 'h')}\nh = torch.stack(d)")


@pytest.mark.parametrize("lines", BESIDE_OTHERS)
def test_samples_meet_what_all_ranks_samples_make(trial: Trial, lines: str) -> None:
    assert_same(trial, "loop", f"{lines}\nloss = loss + torch.stack(d).pow(2).mean()")


def test_what_a_sample_makes_alone_leaves_the_batch_divided(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("loop", f"{OF_EACH}\nloss = loss + torch.stack(d).mean()"))
    assert b"dd.gather" not in convert_file(path).data


@pytest.mark.parametrize("lines", DRAWN_ALIKE)
def test_what_a_forward_draws_for_all_samples_is_alike(trial: Trial, lines: str) -> None:
    assert_same(trial, "forward", lines)


@pytest.mark.parametrize("lines", [*REORDERED, WRITTEN])
def test_lists_in_another_order_get_all_samples(trial: Trial, lines: str) -> None:
    assert_same(trial, "loop", lines)


@pytest.mark.parametrize("lines", DRAWN)
def test_draws_for_one_sample_after_another_are_those_of_all_samples(
    trial: Trial, lines: str
) -> None:
    assert_same(trial, "loop", lines)


@pytest.mark.parametrize("lines", PARTED)
def test_parts_of_a_batch_are_parts_of_the_whole_one(trial: Trial, lines: str) -> None:
    assert_same(trial, "forward", lines)


@pytest.mark.parametrize("lines", [*IN_COLLATE, *OWN])
def test_what_a_sample_becomes_by_its_place_is_of_the_whole_batch(trial: Trial, lines: str) -> None:
    assert_same(trial, "collate", lines)


@pytest.mark.parametrize("lines", OWN)
def test_a_place_alone_leaves_the_batch_divided(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("collate", lines))
    assert b"dd.shard(DataLoader(data, batch_size=5, shuffle=True, collate_fn=collate))" in (
        convert_file(path).data
    )


def assert_same(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
