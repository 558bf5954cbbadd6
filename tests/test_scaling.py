"""A script that is doubled takes at most twice the steps to understand, times 1.2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest

from benchmarks.scaling import SHAPES, planned_steps
from ddpify.convert import convert_file
from ddpify.understanding.batching import held_generators
from ddpify.understanding.structure import walk

MOST = 2 * 1.2

DATA_SET = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self):
        self.rows = [Rows.one(0)]

    @staticmethod
    def one(index):
        return torch.ones(3) * index

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.rows[0], torch.ones(1)


model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in DataLoader(Rows(), 4):
    optimizer.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("size", [8, 16, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_doubled(shape: str, size: int, tmp_path: Path) -> None:
    script = SHAPES[shape]
    once = planned_steps(script(size), tmp_path)
    assert once > 10 * size  # all of it is understood
    assert planned_steps(script(2 * size), tmp_path) <= MOST * once


@pytest.mark.parametrize("size", [4, 8])
def test_more_objects_in_a_file_with_a_data_set(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may hold a generator that the data set draws from."""
    looked: list[cst.CSTNode] = []

    def noted(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for one in walk(node):
            looked.append(one)
            yield one

    monkeypatch.setattr(held_generators, "walk", noted)
    numbers = []
    for number in (size, 2 * size):
        looked.clear()
        script = tmp_path / f"of_{number}.py"
        script.write_text(DATA_SET + "".join(f"rows_{n} = Rows()\n" for n in range(number)))
        convert_file(script)
        numbers.append(len(looked))
    assert 0 < numbers[1] <= MOST * numbers[0]
