"""What an expression is made of in its function, where names are set again and again.

A step of a GAN sets ``fake`` once for each of its losses: what it was before is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition


def is_made_without(
    script: Script, made: cst.BaseExpression, call: cst.Call, derived: Set[Location]
) -> bool:
    """Whether a call of the same function surely is not in what an expression is made of.

    ``derived`` is all that may hold anything of the call's result.
    """
    structure = script.structure_of(made)
    if call not in structure.order or structure.function(call) is not structure.function(made):
        return False
    todo, seen = [made], set[cst.CSTNode]()
    while todo:
        expression = todo.pop()
        if expression in seen:
            continue
        seen.add(expression)
        for node in walk(expression):
            if node is call:
                return False
            if not isinstance(node, (cst.Name, cst.Attribute)):
                continue
            if derived.isdisjoint(script.control.locations(node)):
                continue
            behind = [*_set_last(script, node)] if isinstance(node, cst.Name) else []
            if not behind:
                return False  # which of several values it has is not sure
            todo += behind
    return True


def _set_last(script: Script, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """What a name may have been set to last before it is read there; nothing where that is not
    sure.
    """
    structure = script.structure_of(name)
    edges = script.flow.edges_into(script.control.locations(name))
    here = {edge.node for edge in edges if edge.node in structure.order}
    last = _last(structure, name, here)
    made = [edge for edge in edges if edge.node in last]
    if made and not any(edge.adds or edge.value is None for edge in made):
        yield from (edge.value for edge in made if edge.value is not None)


def _last(structure: Structure, name: cst.Name, here: set[cst.CSTNode]) -> list[cst.CSTNode]:
    """The assignments of which one is the last: the latest that surely runs, and those under
    conditions that stand behind it.
    """
    order, found = structure.order, list[cst.CSTNode]()
    earlier = sorted((one for one in here if order[one] < order[name]), key=order.__getitem__)
    for one in reversed(earlier):
        found.append(one)
        if reaching_definition(structure, name, [one]) is one:
            around = {*structure.up(one)}
            left = [loop for loop in structure.loops(name) if loop not in around]
            again = any(loop in structure.up(other) for loop in left for other in here)
            return [] if again else found
    return []
