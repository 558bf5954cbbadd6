"""Rows of all ranks that a loop over samples reads in each round: gathered once, before it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan, Reduction
from ddpify.understanding.facts import Site
from ddpify.understanding.liveness import assigned
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import names_of

Loop = cst.For | cst.CompFor
Known = dict[tuple[cst.CSTNode, str], str]  # by the loop and the name of the rows, that of all
_CHOOSING = (cst.If, cst.IfExp, cst.Try, cst.While, cst.BooleanOperation)


def is_named_before(plan: Plan, reduction: Reduction, edits: Edits, known: Known) -> bool:
    """Whether a name for the rows of all, from before the loop, takes the place of this reading.

    The first one is moved there itself, and is still to be gathered.
    """
    node, site = reduction.node, plan.site(reduction.node)
    loop = _loop(plan, site) if reduction.how == "gather" and isinstance(node, cst.Name) else None
    if loop is None or not isinstance(node, cst.Name):
        return False
    key, name = (loop, node.value), f"all_{node.value}"
    if key in known:
        edits.put(node, known[key])
        return True
    taken = {one.value for one in site.module.structure.all(cst.Name)}
    if name not in taken and isinstance(site.module.part(loop), cst.BaseStatement):
        known[key] = name
        edits.move_before(site.module.statement(loop), node, name)
    return False


def _loop(plan: Plan, site: Site) -> Loop | None:
    """The outermost loop over the samples of all ranks around a name that it does not change."""
    found = None
    assert isinstance(site.node, cst.Name)
    for loop in _around(site):
        if _changes(site, loop, site.node.value):
            break
        found = loop if _goes_through_all(plan, loop) else found
    return found


def _around(site: Site) -> Iterator[Loop]:
    """The loops around a node in its function, innermost first; not the one that it is given to."""
    below: cst.CSTNode = site.node
    for above in site.module.structure.up(site.node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda, *_CHOOSING)):
            return  # what is read in some rounds alone may not be there before
        if isinstance(above, cst.For) and below is above.body:
            yield above
        elif isinstance(above, cst.BaseSimpleComp) and below is not above.for_in:
            yield above.for_in
        below = above


def _goes_through_all(plan: Plan, loop: Loop) -> bool:
    """Whether a loop has a round for each sample of all ranks."""
    return any(
        node in plan.reductions or (isinstance(node, cst.Name) and _is_of_all_rows(plan, node))
        for node in walk(loop.iter)
    )


def _is_of_all_rows(plan: Plan, name: cst.Name) -> bool:
    """Whether a name stands for the number of all ranks' rows, which it was given before."""
    structure = plan.site(name).module.structure
    around = structure.function(name) or structure.tree
    given = [one for one in structure.inside(around, cst.Assign) if name.value in assigned(one)]
    counts = [one.value in plan.reductions for one in given]
    return bool(counts) and all(counts)


def _changes(site: Site, loop: Loop, name: str) -> bool:
    """Whether a loop gives a name to something else, or writes into what has it."""
    parents = site.module.parents
    whole = loop if isinstance(loop, cst.For) else parents[loop]
    bound = {one.value for one in names_of(loop.target) if isinstance(one, cst.Name)}
    for node in walk(whole):
        if isinstance(node, cst.Name) and node.value == name and _is_written(parents, node):
            return True
    return name in bound


def _is_written(parents: dict[cst.CSTNode, cst.CSTNode], node: cst.CSTNode) -> bool:
    below, above = node, parents[node]
    while isinstance(above, (cst.Subscript, cst.Attribute, cst.Element, cst.Tuple)):
        if isinstance(above, cst.Attribute) and above.attr.value.endswith("_"):
            return True
        below, above = above, parents[above]
    if isinstance(above, cst.AugAssign):
        return above.target is below
    return isinstance(above, (cst.AssignTarget, cst.CompFor, cst.For)) and (
        getattr(above, "target", None) is below
    )
