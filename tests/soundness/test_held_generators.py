"""A data set that draws from a generator of its own gives every rank all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file

SCRIPT = """
import functools
import random

import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, random_split

RNG = random.Random(6)


def noise(rng=RNG):
    return rng.random()


def made():
    return random.Random(5)


def closed(rng):
    return lambda: rng.random()


class Noise:
    def __init__(self):
        self.rng = np.random.default_rng(4)

    def __call__(self, x):
        return x * float(self.rng.normal())


class Held(Dataset):
    def __init__(self, size, given=None):
        self.rows, self.goals = torch.rand(size, 4), torch.rand(size, 4)
        START

    def __len__(self):
        return len(self.rows)

    @property
    def source(self):
        return self.rng

    def __getitem__(self, i):
        x = self.rows[i]
        LINES
        return x, self.goals[i]


def collate(samples):
    rows = torch.stack([x + 0 * noise(random.Random(2)) COLLATED for x, _ in samples])
    return rows, torch.stack([y for _, y in samples])


torch.manual_seed(0)
data = Held(22, np.random.RandomState(7))
loader = DataLoader(WHOLE, batch_size=5, shuffle=True, collate_fn=collate)
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
_DRAWS = "x = x * self.rng.random()"
IN_TURN = [
    ("self.rng = random.Random(0)", _DRAWS),
    ("self.rng: random.Random = random.Random(0)", _DRAWS),
    ("self.rng, self.n = random.Random(0), 1", _DRAWS),
    ("self.rng = np.random.RandomState(0)", "x = x + float(self.rng.randn())"),
    ("self.rng = np.random.Generator(np.random.PCG64(5))", "x = x + float(self.rng.normal())"),
    ("self.rng = torch.Generator()", "x = x + torch.randn(4, generator=self.rng)"),
    ("self.rng = given", "x = x + float(self.rng.randn())"),
    ("self.rng = made()", _DRAWS),
    ("self.rng = random.Random(0)", "x = x * self.source.random()"),
    ("self.rng = random.Random(0)", "x = x * noise(self.rng)"),
    ("self.rng = None", f"self.rng = self.rng or random.Random(0); {_DRAWS}"),
    ("self.rngs = {'a': random.Random(0)}", "x = x * self.rngs['a'].random()"),
    ("self.noise = functools.partial(noise, RNG)", "x = x * self.noise()"),
    ("self.noise = closed(random.Random(3))", "x = x * self.noise()"),
    ("self.noise = [Noise(), Noise()]", "x = self.noise[1](self.noise[0](x))"),
    ("pass", "x = x * noise()"),
    ("pass", "x = x * RNG.random()"),
]
OF_EACH_SAMPLE = [
    ("self.rng = random.Random(0)", f"self.rng.seed(int(i)); {_DRAWS}"),
    ("self.rng = torch.Generator()", "self.rng.manual_seed(i); x = x + torch.rand(4, "
     "generator=self.rng)"),
    ("pass", f"self.rng = random.Random(int(i)); {_DRAWS}"),
    ("pass", "x = x * np.random.default_rng(int(i)).random()"),
    ("self.rng = random.Random(0); self.rows *= self.rng.random()", "pass"),
]  # fmt: skip


def written(start: str, lines: str, whole: str = "data", collated: str = "") -> str:
    """The script of a data set with these lines."""
    blocks = [part.replace("; ", "\n        ") for part in (start, lines)]
    text = SCRIPT.replace("START", blocks[0]).replace("LINES", blocks[1])
    return text.replace("WHOLE", whole).replace("COLLATED", collated)


def assert_same(trial: Trial, text: str) -> None:
    """Let a script convert to the same training at 1, 2 and 3 ranks."""
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(("start", "lines"), IN_TURN)
def test_every_rank_takes_all_samples(trial: Trial, start: str, lines: str) -> None:
    assert_same(trial, written(start, lines))


@pytest.mark.parametrize(
    "whole",
    ["Subset(data, range(13))", "ConcatDataset([data, data])", "random_split(data, [13, 9])[0]"],
)
def test_parts_of_such_a_data_set_are_of_that_kind(trial: Trial, whole: str) -> None:
    assert_same(trial, written(*IN_TURN[0], whole=whole))


@pytest.mark.parametrize(
    "drawn",
    ["RNG.random()", "RNG.gauss(1, 0.5)", "torch.rand(4, generator=G)", "float(N.normal())"],
)
def test_a_collate_function_draws_for_all_samples_in_turn(trial: Trial, drawn: str) -> None:
    made = "RNG = random.Random(6)\nG = torch.Generator()\nN = np.random.default_rng(3)"
    text = written("pass", "pass", collated=f"* {drawn}")
    assert_same(trial, text.replace("RNG = random.Random(6)", made))


@pytest.mark.parametrize(("start", "lines"), OF_EACH_SAMPLE)
def test_each_rank_takes_its_own_samples(
    trial: Trial, tmp_path: Path, start: str, lines: str
) -> None:
    text = written(start, lines).replace(", collate_fn=collate", "")
    assert_same(trial, text)
    path = tmp_path / "script.py"
    path.write_text(text)
    assert "dd.shard(DataLoader(data, batch_size=5, shuffle=True))" in (
        convert_file(path).data.decode()
    )
