"""What happens to a model between its wrapping and its training."""

from __future__ import annotations

from itertools import combinations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.sequence import runs_only_after
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.structure import Structure
from ddpify.understanding.values import Instance


def events_after(script: Script, wrap: Wrap, kind: str) -> list[cst.CSTNode]:
    """Places of events of this kind after a model was wrapped; none where it is wrapped again."""
    own = [] if wrap.in_place else script.events(wrap.wrapper, kind)
    nodes = [event.site.node for event in own]
    for model in wrap.held:
        if _is_wrapped_again(script, model):
            return []
        after = False
        for event in script.events(model, "wrap", kind):
            if event.kind == "wrap":
                after = True
            elif after:
                nodes.append(event.site.node)
        nodes += _of_its_parts(script, wrap, model, kind)
    return nodes


def _is_wrapped_again(script: Script, model: Instance) -> bool:
    """Whether a model is wrapped in two places, and not in either branch of a condition."""
    places = [event.site.node for event in script.events(model, "wrap")]
    return any(
        not are_alternatives(script, first, second)
        for first, second in combinations(dict.fromkeys(places), 2)
    )


def are_alternatives(script: Script, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    """Whether two places stand in different branches of one condition, here or in their callers."""
    branches = _branches(script, first)
    others = {(statement, not positive) for statement, positive in _branches(script, second)}
    return not branches.isdisjoint(others)


def _branches(
    script: Script, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> set[tuple[cst.CSTNode, bool]]:
    """The branches in which a node stands, and those in which all calls of its function stand."""
    found = {(one.statement, one.positive) for one in script.control.guards(node)}
    function = script.structure_of(node).function(node)
    if function is None or function in seen:
        return found
    calls = [
        _branches(script, site.node, seen | {function}) for site in script.control.callers(function)
    ]
    return found | set.intersection(*calls) if calls else found


def _of_its_parts(script: Script, wrap: Wrap, model: Instance, kind: str) -> list[cst.CSTNode]:
    """Places where something happens to a part of a model that was wrapped before: in a training
    loop, or below the wrapper in the same function.
    """
    nodes = script.events_of_parts(model, kind)
    # A method's place is that of all the parts that have it.
    late = {node for node in set(nodes) if is_after(script, wrap, node)}
    return [node for node in nodes if node in late]


def is_after(script: Script, wrap: Wrap, node: cst.CSTNode) -> bool:
    """Whether a place is in a training loop, or below the wrapper in the same function."""
    around = set(script.control.around(wrap.site.node))
    return _follows(script, wrap, node) or any(
        script.trains(loop) for loop in script.control.around(node) if loop not in around
    )


def _follows(script: Script, wrap: Wrap, node: cst.CSTNode) -> bool:
    """Whether a place stands below the wrapper, in the same function or in one that is called
    there, and in no other branch.
    """
    structure = script.structure_of(node)
    order, made = structure.order, wrap.site.node
    if made not in order or structure.function(made) is not structure.function(node):
        return runs_only_after(script, node, made) and not are_alternatives(script, made, node)
    return order[made] < order[node] and not are_alternatives(script, made, node)


def is_in_training(script: Script, node: cst.CSTNode) -> bool:
    """Whether training goes on around a node, or in a loop or call after it at the same level."""
    if any(script.trains(loop) for loop in script.control.around(node)):
        return True
    structure = script.structure_of(node)
    at = structure.order[node]
    function = structure.function(node)
    return any(
        (structure.order[later] > at or _begins_with(structure, later, node))
        and structure.function(later) is function
        and script.trains(later)
        for later in structure.all(cst.For, cst.While, cst.Call)
    )


def _begins_with(structure: Structure, later: cst.CSTNode, node: cst.CSTNode) -> bool:
    """``Trainer(model).run()``, which makes the trainer first."""
    if not isinstance(later, cst.Call) or not isinstance(later.func, cst.Attribute):
        return False
    return any(one is later.func.value for one in (node, *structure.up(node)))


def training_follows(script: Script, node: cst.CSTNode) -> bool:
    """Whether training goes on around a node or after it, there or where its function is called.

    What calls a function may not be seen.
    """
    return any(
        is_in_training(script, one) or _may_be_called_unseen(script, one)
        for one in script.control.ways_to(node)
    )


def _may_be_called_unseen(script: Script, node: cst.CSTNode) -> bool:
    """Whether a node stands in a function that nothing in sight calls, or starts ranks with."""
    function = script.structure_of(node).function(node)
    return (
        function is not None
        and function not in script.control.spawned
        and not script.control.callers(function)
    )


def through_wrapper(script: Script, node: cst.CSTNode) -> cst.Attribute | None:
    """The ``x.module`` of a wrapper ``x`` that an expression starts with."""
    while isinstance(node, (cst.Attribute, cst.Call, cst.Subscript)):
        inner = node.func if isinstance(node, cst.Call) else node.value
        named = isinstance(node, cst.Attribute) and node.attr.value == "module"
        if named and script.is_wrapped(inner):
            return node  # type: ignore[return-value]
        node = inner
    return None
