"""Whether the process group surely exists where a node runs: a fix must not ask for it earlier."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.control import Control
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, is_main_guard
from ddpify.understanding.taint.call_graph import called, initialisers

_END = "torch.distributed.destroy_process_group"
_LEAVING = (cst.If, cst.Try, cst.TryStar, cst.For, cst.While, cst.Match, cst.FunctionDef,
            cst.ClassDef, cst.Lambda)  # fmt: skip


def is_joined(control: Control, node: cst.CSTNode) -> bool:
    """Whether every way to a node leads through the start of the process group."""
    return control.holds_on_every_way(
        node, lambda one: any(_joins(control, before) for before in _before(control, one))
    )


def has_left(control: Control, node: cst.CSTNode) -> bool:
    """Whether some ranks alone have surely ended their group before a node: what they do then is
    done without the others.
    """
    return any(
        isinstance(one, cst.SimpleStatementLine)
        and bool(control.rank_guards(one))
        and _ends(control, one)
        for one in _before(control, node)
    )


def _ends(control: Control, statement: cst.SimpleStatementLine) -> bool:
    """Whether a statement destroys the group, where there is one."""
    here = {one.statement for one in control.guards(statement)}
    return any(
        isinstance(one, cst.Call)
        and _END in control.script.names(one.func)
        and all(
            guard.statement in here or "is_initialized" in code_of(guard.test)
            for guard in control.guards(one)
        )
        for one in control.script.reached(statement)
    )


def _before(control: Control, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements of a node's function that surely have run before it."""
    structure = control.script.structure_of(node)
    below = node
    for above in structure.up(node):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            return
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            yield from above.body[: next(i for i, x in enumerate(above.body) if x is below)]
        below = above


def _joins(control: Control, node: cst.CSTNode, depth: int = 5) -> bool:
    """Whether a statement starts the group whenever it runs to its end."""
    if isinstance(node, cst.With):
        return any(_joins(control, one, depth) for one in node.body.body)
    if isinstance(node, _LEAVING):
        return isinstance(node, cst.If) and _is_of_the_file(control, node, depth)
    calls = [one for one in walk(node) if isinstance(one, cst.Call)]
    return any(_is_start(control, one, depth) for one in calls)


def _is_of_the_file(control: Control, node: cst.If, depth: int) -> bool:
    return is_main_guard(node.test) and any(_joins(control, one, depth) for one in node.body.body)


def _is_start(control: Control, call: cst.Call, depth: int) -> bool:
    if INIT_GROUP in control.script.names(call.func):
        return True
    functions = [*called(control.script.facts, call), *initialisers(control.script.facts, call)]
    return (
        bool(functions)
        and depth > 0
        and all(
            isinstance(one.node, cst.FunctionDef) and _always_joins(control, one.node, depth - 1)
            for one in functions
        )
    )


def _always_joins(control: Control, function: cst.FunctionDef, depth: int) -> bool:
    """Whether a function starts the group on each way out of it."""
    structure = control.script.structure_of(function)
    started = False
    for statement in function.body.body:
        leaves = any(
            isinstance(one, cst.Return) and structure.function(one) is function
            for one in walk(statement)
        )
        if leaves and not started:
            return _joins(control, statement, depth)
        started = started or _joins(control, statement, depth)
    return started
