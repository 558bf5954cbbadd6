"""Losses that are read now and then, so that the ranks exchange their values only there.

The value of a lazy loss is a collective wherever it is first looked at. So every use of it must be
seen, and all ranks must come to each: it is not handed on, and stands under no condition but one on
numbers that count the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan, Reduction
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.structure import Guard, Structure, walk
from ddpify.understanding.syntax import argument, names_of

_READERS = ("builtins.float", "builtins.str", "builtins.int")
_RANGES = ("builtins.range", "tqdm.trange")
_ENUMERATIONS = ("builtins.enumerate", "tqdm.contrib.tenumerate")

_Called = Mapping[cst.CSTNode, str]
"""The qualified names of the library functions that calls are of."""


def is_lazy(plan: Plan, reduction: Reduction, edits: Edits) -> bool:
    """Whether a reduction may wait until its value is read.

    edits: all others of the conversion; what they put under a condition is not for all ranks.
    """
    site = plan.site(reduction.node)
    plain = reduction.trained_on and reduction.how in ("mean", "sum") and not reduction.weight
    if not plain or plan.options.resume or len(edits.changes.get(reduction.node, ())) != 1:
        return False
    if reduction.node in plan.facts.reductions.used_on_rows:
        return False
    above = site.module.parents[reduction.node]
    if isinstance(above, cst.Attribute):
        return above.attr.value == "backward"
    name = _assigned(site)
    if name is None or _is_shared(site, name):
        return False
    uses = list(_uses(site, name))
    changes = (one.target for one in site.module.structure.all(cst.AugAssign))
    if any(isinstance(one, cst.Name) and one.value == name.value for one in changes):
        return False
    sites = plan.facts.library_calls.items()
    called = {node: function for function, nodes in sites for node in nodes}
    return all(_is_read_now_and_then(site, use, edits, called) for use in uses)


def _assigned(site: Site) -> cst.Name | None:
    """The one name that an expression is assigned to."""
    above = site.module.parents[site.node]
    if not isinstance(above, cst.Assign) or len(above.targets) != 1:
        return None
    target = above.targets[0].target
    return target if isinstance(target, cst.Name) else None


def _is_shared(site: Site, name: cst.Name) -> bool:
    """Whether other functions may read a name."""
    structure = site.module.structure
    own = structure.function(site.node)
    if own is not None and name.value in structure.captured.get(own, ()):
        return True
    lines = structure.all(cst.Global, cst.Nonlocal)
    if any(name.value == one.name.value for line in lines for one in line.names):
        return True
    others = {structure.function(n) for n in structure.all(cst.Name) if n.value == name.value}
    return own is None and not all(_sets(f, name.value) for f in others if f is not None)


def _sets(function: cst.FunctionDef, name: str) -> bool:
    parameters = (*function.params.params, *function.params.kwonly_params)
    if any(one.name.value == name for one in parameters):
        return True
    return any(store.value == name for store in _stores(function.body))


def _stores(block: cst.CSTNode) -> Iterator[cst.Name]:
    for node in walk(block):
        if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.For, cst.NamedExpr)):
            yield from (one for one in names_of(node.target) if isinstance(one, cst.Name))


def _uses(site: Site, name: cst.Name) -> Iterator[cst.Name]:
    """The places where a name may hold what is assigned at ``site``."""
    structure = site.module.structure
    own = structure.function(site.node)
    body: cst.CSTNode = own.body if own is not None else structure.tree
    stores = [one for one in _stores(body) if one.value == name.value]
    for use in structure.inside(body, cst.Name):
        if use.value != name.value or use in stores or structure.function(use) is not own:
            continue
        above = structure.parents[use]
        if isinstance(above, (cst.Arg, cst.Attribute)) and use in (
            getattr(above, "keyword", None),
            getattr(above, "attr", None),
        ):
            continue
        if _set_by(structure, use, stores) in (None, name):
            yield use


def _set_by(structure: Structure, use: cst.Name, stores: list[cst.Name]) -> cst.Name | None:
    """The last assignment that surely comes before a use; None where there is none."""
    around = {use, *structure.up(use)}
    line = structure.statement(use)
    before = [
        store
        for store in stores
        if structure.order[store] < structure.order[use]
        and structure.statement(store) is not line
        and structure.parents[structure.statement(store)] in around
    ]
    return before[-1] if before else None


def _is_read_now_and_then(site: Site, use: cst.Name, edits: Edits, called: _Called) -> bool:
    structure = site.module.structure
    above = structure.parents[use]
    call = structure.parents[above]
    if isinstance(above, cst.Attribute) and above.attr.value == "backward":
        return isinstance(call, cst.Call) and call.func is above
    if not _is_looked_at(structure, use, called) or _is_for_some_ranks(structure, use, edits):
        return False
    loop = next(iter(structure.loops(site.node)), None)
    if loop is None or loop not in structure.up(use):
        return True
    common = {guard.statement for guard in structure.guards(site.node)}
    own = [guard for guard in structure.guards(use) if guard.statement not in common]
    return bool(own) and all(_counts_steps(structure, guard, called) for guard in own)


def _is_looked_at(structure: Structure, use: cst.Name, called: _Called) -> bool:
    """Whether a name stands where its value itself is read, and is not handed on as it is."""
    above = structure.parents[use]
    if isinstance(above, cst.Attribute):
        return True
    if isinstance(above, cst.Arg):
        return called.get(structure.parents[above]) in _READERS
    return isinstance(above, cst.FormattedStringExpression)


def _is_for_some_ranks(structure: Structure, use: cst.Name, edits: Edits) -> bool:
    """Whether a conversion leaves a place to rank 0, or takes it away."""
    left = (edits.blocks, edits.parts, edits.removed)
    return any(node in held for node in (use, *structure.up(use)) for held in left)


def _counts_steps(structure: Structure, guard: Guard, called: _Called) -> bool:
    """``step % 20 == 0`` and the like, of loop counters and of numbers that are not set there."""
    parts = list(walk(guard.test))
    periodic = any(
        isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Modulo)
        for part in parts
    )
    calls = (called.get(part) for part in parts if isinstance(part, cst.Call))
    loops = structure.loops(guard.statement)
    if not periodic or not loops or not all(name == "builtins.len" for name in calls):
        return False
    names = {part.value for part in parts if isinstance(part, cst.Name)}
    attributes = {part.attr.value for part in parts if isinstance(part, cst.Attribute)}
    return not attributes & _set_attributes(structure) and all(
        _is_counter(structure, loops[-1], name, called) for name in names
    )


def _set_attributes(structure: Structure) -> set[str]:
    """The attributes that anything sets, but for counting and where objects are made."""
    found = set()
    for one in structure.all(cst.Attribute):
        above, function = structure.parents[one], structure.function(one)
        made = function is not None and function.name.value == "__init__"
        counted = isinstance(above, cst.AugAssign) and isinstance(above.value, cst.Integer)
        stored = isinstance(above, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))
        if stored and not made and not counted:
            found.add(one.attr.value)
    return found


def _is_counter(
    structure: Structure, outermost: cst.For | cst.While, name: str, called: _Called
) -> bool:
    """Whether a name counts rounds of a loop, or no loop around it sets it."""
    for store in _stores(outermost):
        above = structure.parents[store]
        if store.value != name:
            continue
        if isinstance(above, cst.AugAssign):
            counts = isinstance(above.value, cst.Integer)
        else:
            loops = (one for one in structure.up(store) if isinstance(one, cst.For))
            counts = any(_counts(loop, store, called) for loop in loops)
        if not counts:
            return False
    return True


def _counts(loop: cst.For, target: cst.Name, called: _Called) -> bool:
    """``for i in range(...)``, ``for i, x in enumerate(...)``, also under a progress bar."""
    call: cst.BaseExpression | None = loop.iter
    while isinstance(call, cst.Call) and (through := BARS.get(called.get(call, ""))):
        given = argument(call, through, 0)
        call = given.value if given is not None else None
    name = called.get(call) if call is not None else None
    if name in _RANGES:
        return loop.target is target
    first = loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else None
    return name in _ENUMERATIONS and first is target
