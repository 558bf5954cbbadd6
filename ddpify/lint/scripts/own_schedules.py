"""Schedules of the project: classes whose steps write into the groups of an optimizer."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.values import Class, Instance


def is_own_schedule(one: Instance) -> bool:
    """Whether an object of the project has a step, and code that sets what an optimizer's groups
    hold: no optimizer itself.
    """
    if not isinstance(one.type, Class) or not one.type.find("step"):
        return False
    if any(name.startswith("torch.optim.") for name in one.type.library_bases()):
        return False
    return any(_writes_groups(node) for node in _family(one.type))


def _family(kind: Class) -> Iterator[cst.ClassDef]:
    yield kind.node
    for base in kind.project_bases():
        yield from _family(base)


def _writes_groups(node: cst.ClassDef) -> bool:
    """``for group in self.optimizer.param_groups: group[name] = value``."""
    return any(
        isinstance(loop, cst.For)
        and any(isinstance(x, cst.Attribute) and x.attr.value == "param_groups"
                for x in walk(loop.iter))
        and any(
            isinstance(x, (cst.AssignTarget, cst.AugAssign)) and isinstance(x.target, cst.Subscript)
            for x in walk(loop.body)
        )
        for loop in walk(node.body)
    )  # fmt: skip
