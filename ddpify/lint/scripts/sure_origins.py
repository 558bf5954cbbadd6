"""What an expression is surely made of: nothing that a function got which is not seen.

Such a function may well give the same on all ranks, as ``synced_name(time.time())`` of another
package does, or of a file that was too large to be read with this one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.locations import Location

_KNOWN = frozenset({*sys.stdlib_module_names, "torch", "numpy"})


def origins(script: Script, node: cst.BaseExpression) -> Iterator[Dependency]:
    """Everything that surely went into an expression's value, however indirectly."""
    flow, seen = script.flow, set[Location]()
    start = flow.made_of.of(node, script.owners.get(node, script.module))
    todo: list[tuple[Dependency, cst.BaseExpression]] = [(one, node) for one in start]
    while todo:
        one, whole = todo.pop()
        if one.node is not None and _is_handed_over(script, one.node, whole):
            continue
        yield one
        if one.location is None or len(one.location) < 3 or one.location[0] != "result":
            todo += [(inner, whole) for inner in one.given or ()]
        if one.location is None or one.location in seen:
            continue
        seen.add(one.location)
        for edge in flow.edges_into({one.location}):
            if edge.value is not None and not _may_be_changed(script, edge.value, one.location):
                todo += [(inner, edge.value) for inner in edge.source]


def _is_handed_over(script: Script, node: cst.CSTNode, whole: cst.CSTNode) -> bool:
    """Whether a call that is not seen stands between a part of an expression and the whole."""
    if node is whole:
        return False
    below = node
    for above in script.structure_of(node).up(node):
        if isinstance(above, cst.Call) and below is not above.func and _is_unseen(script, above):
            return True
        if above is whole or isinstance(above, cst.BaseStatement):
            return False
        below = above
    return False


def _is_unseen(script: Script, call: cst.Call) -> bool:
    """Whether nothing is known of what a call runs; texts have methods that are known."""
    if any(True for _ in called(script.facts, call)):
        return False
    names = script.names(call.func)
    if names:
        return any(name.split(".")[0] not in _KNOWN for name in names if "." in name)
    if isinstance(call.func, cst.Attribute):
        of_text = hasattr(str, call.func.attr.value) or hasattr(list, call.func.attr.value)
        return not of_text and not script.value(call.func.value).atoms
    return not script.value(call.func).atoms


def _may_be_changed(script: Script, made: cst.BaseExpression, location: Location) -> bool:
    """Whether a call that is not seen gets a list itself: ``names = [...]; share(names)``."""
    return isinstance(made, cst.List) and any(
        location in script.flow.locations(given.value, script.owners[call])
        for structure in script.structures.values()
        for call in structure.all(cst.Call)
        for given in call.args
        if isinstance(given.value, (cst.Name, cst.Attribute)) and _is_unseen(script, call)
    )
