"""A reduction that nothing comes to is left out, and the script is not interpreted once more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import fields, is_dataclass

import libcst as cst
import pytest

from ddpify.planning import idle_reductions, solver
from ddpify.planning.conversion_options import Options
from ddpify.planning.plan import Plan
from ddpify.source import read_source, source_from_bytes
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Class, Function, Instance, Namespace, Value
from tests.conftest import FIXTURES

WITH_IDLE = ["borrowed_helpers", "reduction_in_helper", "two_terms", "whole_batch_losses"]

SCRIPT = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(3, 1)
def hook(module, given, out):
    return out * out.sum()
model.register_forward_hook(hook)
for x, y in DataLoader(data, 4):
    print(model(x), x.sum())
print(len('abc'))
"""


def told(one: object) -> object:
    """What facts say, in a form that is equal for two runs: objects go by their places."""
    if isinstance(one, (cst.CSTNode, ModuleFile)):
        return id(one)
    if isinstance(one, Instance):
        return ("object", *map(id, one.place), one.kind)
    if isinstance(one, (Function, Class)):
        return id(one.node)
    if isinstance(one, Namespace):
        return id(one.module)
    if isinstance(one, Value):
        return sorted(repr(told(atom)) for atom in one.atoms)
    if isinstance(one, Mapping):
        return sorted(repr((told(key), told(held))) for key, held in one.items())
    if isinstance(one, AbstractSet):
        return sorted(repr(told(held)) for held in one)
    if isinstance(one, (list, tuple)):
        return [told(held) for held in one]
    if is_dataclass(one):
        return [(f.name, told(getattr(one, f.name))) for f in fields(one)]
    return repr(one)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, effective: bool = False) -> Iterator[list[Facts]]:
    """Inside, the facts of each interpretation are collected; reductions may count as effective."""
    runs: list[Facts] = []

    def noted(project: Project, choices: Choices) -> Facts:
        runs.append(interpret(project, choices))
        runs[-1].reductions.effective |= choices.reduced if effective else set()
        return runs[-1]

    with monkeypatch.context() as patched:
        patched.setattr(solver, "interpret", noted)
        yield runs


def project_of(fixture: str) -> Project:
    return Project(read_source(FIXTURES / fixture / "train.py"))


@pytest.mark.parametrize("fixture", WITH_IDLE)
def test_one_run_more_would_learn_the_same(fixture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = idle_reductions.left_out
    compared: list[Plan] = []

    def both_ways(plan: Plan, asked: Choices) -> bool:
        is_left_out = left_out(plan, asked)
        if plan.idle and is_left_out:
            again = interpret(plan.project, plan.choices.copied())
            for kind in fields(Facts):
                ours, theirs = getattr(plan.facts, kind.name), getattr(again, kind.name)
                assert told(ours) == told(theirs), kind.name
            compared.append(plan)
        return is_left_out

    monkeypatch.setattr(idle_reductions, "left_out", both_ways)
    solver.make_plan(project_of(fixture), Options())
    assert compared


def test_what_has_changed_a_run_asks_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as few:
        solver.make_plan(project_of("two_terms"), Options())
    with counted(monkeypatch, effective=True) as more:
        solver.make_plan(project_of("two_terms"), Options())
    assert len(more) == len(few) + 1


@pytest.mark.parametrize(
    ("place", "is_effective"),
    [("x.sum()", True), ("out.sum()", True), ("len('abc')", False)],
    ids=["of a part", "in a hook", "of a number"],
)
def test_a_reduction_is_effective_where_it_changes_a_value(place: str, is_effective: bool) -> None:
    project = Project(source_from_bytes(SCRIPT.encode(), "train.py"))
    node = next(call for call in project.entry.structure.all(cst.Call) if code_of(call) == place)
    facts = interpret(project, Choices(reduced={node}))
    assert (node in facts.reductions.effective) is is_effective


def test_choices_are_compared_with_those_that_were_asked_for() -> None:
    kept, dropped, loader = cst.Name("a"), cst.Name("b"), cst.Name("c")
    asked = Choices(reduced={kept, dropped})
    now = asked.copied()
    now.reduced.discard(dropped)
    assert now.are_without(frozenset({dropped}), asked)
    assert not now.are_without(frozenset(), asked)
    now.trained.add(loader)
    assert not now.are_without(frozenset({dropped}), asked)
