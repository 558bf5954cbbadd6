"""What one round shows of several calls is decided in that round."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning import solver
from ddpify.planning.conversion_options import Options
from ddpify.planning.plan import Plan
from ddpify.source import source_from_bytes
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project

TRAINING = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
weights = torch.ones(3)


def total(values):
    return values.square().sum().item()


def evaluate(loader):
    for x, y in loader:
        print((model(x) - y).median().item())


for x, y in DataLoader(data, 4):
    optimizer.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
"""
OF_PARTS = [f"    print(total({one}))\n" for one in ("x", "y", "x + 1", "y * 2")]
OF_WEIGHTS = "    print(total(weights))\n"
EVALUATIONS = [f"evaluate(DataLoader(data, {size}))\n" for size in (1, 2, 3, 4)]


def planned(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, int]:
    """The plan of a script, and how often it was interpreted for that."""
    runs: list[Facts] = []

    def counted(project: Project, choices: Choices) -> Facts:
        runs.append(interpret(project, choices))
        return runs[-1]

    with monkeypatch.context() as patched:
        patched.setattr(solver, "interpret", counted)
        source = source_from_bytes(text.encode(), str(folder / "train.py"))
        return solver.make_plan(Project(source), Options()), len(runs)


def test_calls_that_need_whole_rows_take_no_round_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reduction in the function does not suit the call that gets what all ranks hold."""
    _, two = planned(TRAINING + "".join(OF_PARTS[:2]) + OF_WEIGHTS, tmp_path, monkeypatch)
    plan, four = planned(TRAINING + "".join(OF_PARTS) + OF_WEIGHTS, tmp_path, monkeypatch)
    assert two == four
    assert [made.how for made in plan.reductions.values()].count("gather") == 4


def test_evaluations_by_one_function_take_no_round_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, one = planned(TRAINING + EVALUATIONS[0], tmp_path, monkeypatch)
    plan, four = planned(TRAINING + "".join(EVALUATIONS), tmp_path, monkeypatch)
    assert one == four
    assert len(plan.replicated) == 4
