"""What an object of the project is told, and makes nothing of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import libcst as cst

from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.values import Class, Function, Instance

_SHOWING = frozenset({*BARS, "builtins.print"})
_TELLING = frozenset({"info", "debug", "warning", "log"})


class Followed(Protocol):
    """A script, as far as it is asked here."""

    @property
    def flow(self) -> Flow:
        """Where values go."""

    @property
    def read_attributes(self) -> frozenset[str]:
        """The names of all attributes that any file reads."""

    def structure_of(self, node: cst.CSTNode) -> Structure:
        """The structure of the file that a node is in."""

    def names(self, node: cst.CSTNode) -> set[str]:
        """The library's names for an expression."""


def unread_arguments(script: Followed, one: Instance) -> Iterator[cst.BaseExpression]:
    """The arguments of the call that makes an object which its class does not read."""
    made = one.type.find("__init__") if isinstance(one.type, Class) else None
    functions = [held.node for held in made.of(Function)] if made is not None else []
    if len(functions) != 1 or not isinstance(functions[0], cst.FunctionDef):
        return
    (function,) = functions
    if function.params.star_kwarg is not None:
        return
    read = {
        name.value
        for name in walk(function.body)
        if isinstance(name, cst.Name)
        and not (is_kept_unread(script, name) or is_for_show(script, name))
    }
    for edge in script.flow.edges_at(one.site):
        if edge.passes and edge.value is not None and not read & {x[-1] for x in edge.targets}:
            yield edge.value


def is_kept_unread(script: Followed, node: cst.CSTNode) -> bool:
    """Whether a name only goes into an attribute that nothing reads: ``self.rank = rank``; or
    whether this is that attribute.
    """
    above = script.structure_of(node).parents.get(node)
    if isinstance(above, cst.AssignTarget):
        target, above = node, script.structure_of(node).parents.get(above)
    elif isinstance(above, cst.Assign) and len(above.targets) == 1:
        target = above.targets[0].target
    else:
        return False
    return isinstance(target, cst.Attribute) and target.attr.value not in script.read_attributes


def names_an_argument(script: Followed, node: cst.CSTNode) -> bool:
    """Whether a name only says which argument a function takes, or gets."""
    above = script.structure_of(node).parents.get(node)
    return isinstance(above, cst.Param) or (isinstance(above, cst.Arg) and node is above.keyword)


def is_for_show(script: Followed, node: cst.CSTNode) -> bool:
    """Whether a node only decides who prints, or who shows a progress bar, or is what is shown."""
    below = node
    if isinstance(node, cst.Call) and "builtins.print" in script.names(node.func):
        return True
    for above in script.structure_of(node).up(node):
        if isinstance(above, cst.Call) and below in above.args:
            names = script.names(above.func)
            if "builtins.print" in names or (names & _SHOWING and below is not above.args[0]):
                return True
        if isinstance(above, cst.If):
            return below is above.test and above.orelse is None and _only_shows(script, above.body)
        if isinstance(above, (cst.BaseSmallStatement, cst.FunctionDef)):
            return False
        below = above
    return False


def _only_shows(script: Followed, body: cst.BaseSuite) -> bool:
    """``print(...)``, ``batches = tqdm(batches)``, and nothing else."""
    lines = [
        one
        for line in body.body
        for one in (line.body if isinstance(line, cst.SimpleStatementLine) else (line,))
    ]
    calls = [getattr(one, "value", None) for one in lines]
    return all(
        isinstance(one, cst.Call)
        and (
            script.names(one.func) & _SHOWING
            or (isinstance(one.func, cst.Attribute) and one.func.attr.value in _TELLING)
        )
        for one in calls
    )
