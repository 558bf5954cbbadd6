"""What all ranks take part in inside a statement that writes: it is computed before."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import libcst as cst
from ddpify.codemods.files.write_effects import takes_part_in_training

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.structure import children, walk
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function, Instance


def compute_before(plan: Plan, edits: Edits, statement: cst.CSTNode, write: cst.CSTNode) -> None:
    """What all ranks take part in inside a write is computed before it, and given names."""
    names = {n.value for n in plan.module_of(statement).parents if isinstance(n, cst.Name)}
    around = {write, *plan.module_of(write).structure.up(write)}
    for node in _taken_part_in(plan, statement, around):
        reduced = any(inner in plan.reductions for inner in walk(node))
        name = _free("whole" if reduced else "made", names)
        names.add(name)
        edits.move_before(statement, node, name)


def _free(stem: str, names: set[str]) -> str:
    """A name that a file does not use yet."""
    numbered = (f"{stem}_{number}" for number in range(2, len(names) + 3))
    return next(name for name in (stem, *numbered) if name not in names)


_TAKING_OUT = ("pop", "popleft", "popitem")

# What may leave an expression in it out, or compute it many times.
_SOMETIMES = (cst.Lambda, cst.BaseComp, cst.IfExp, cst.BooleanOperation)


def can_go_before(plan: Plan, statement: cst.CSTNode, write: cst.CSTNode) -> bool:
    """Whether what all ranks take part in inside a write can be computed before it."""
    nodes = list(walk(statement))
    around = {write, *plan.module_of(write).structure.up(write)}
    if any(("save", n) in plan.facts.effects for n in nodes):
        return False
    if any(_runs_own_code(plan, n) for n in nodes if n in around):
        return False
    bound = {name for n in nodes for name in _bound_by(n)}
    many = isinstance(statement, cst.With)
    for part in _taken_part_in(plan, statement, around):
        inside = [n for n in plan.module_of(part).structure.up(part) if n in nodes]
        within = list(walk(part))
        if any(isinstance(n, _SOMETIMES) for n in inside):
            return False
        if any(isinstance(n, cst.Name) and n.value in bound for n in within):
            return False
        if many and any(_runs_own_code(plan, n) for n in within):
            return False
    return True


def _bound_by(node: cst.CSTNode) -> Iterator[str]:
    """The names that a loop, or a block's header, binds."""
    target = node.target if isinstance(node, (cst.For, cst.CompFor)) else None
    target = node.name if isinstance(node, cst.AsName) else target
    for inner in walk(target) if target is not None else ():
        if isinstance(inner, cst.Name):
            yield inner.value


def _taken_part_in(
    plan: Plan, node: cst.CSTNode, around: Container[cst.CSTNode]
) -> Iterator[cst.BaseExpression]:
    """The outermost parts of a write that all ranks run: reductions, and the project's own code.

    And what takes something out of a list, which is the same on all ranks.
    """
    for child in children(node):
        shared = child in plan.reductions or _runs_own_code(plan, child) or _takes_out(child)
        if shared and child not in around and isinstance(child, cst.BaseExpression):
            yield child
        else:
            yield from _taken_part_in(plan, child, around)


def holds_shared_work(plan: Plan, statement: cst.CSTNode) -> bool:
    """Whether a statement holds something that all ranks must take part in."""
    return any(
        n in plan.reductions
        or ("save", n) in plan.facts.effects
        or _runs_own_code(plan, n)
        or _takes_out(n)
        for n in walk(statement)
    )


def _takes_out(node: cst.CSTNode) -> bool:
    """Whether this is ``names.pop(0)``, whose list other lines read."""
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _TAKING_OUT


def runs_on_all_ranks(plan: Plan, site: Site) -> bool:
    """Whether all ranks must run a call that saves: it may change its object, or use a model."""
    atoms = _called(plan, site.node)
    return any(isinstance(a, (Bound, Instance)) for a in atoms) or hands_over_training(plan, site)


def hands_over_training(plan: Plan, site: Site) -> bool:
    """Whether a call of another file's code gives it a model or a loader, which all ranks run."""
    arguments = site.node.args if isinstance(site.node, cst.Call) else ()
    held = [plan.facts.values.get(a.value, UNKNOWN) for a in arguments]
    return any(takes_part_in_training(atom) for one in held for atom in one.atoms)


def _runs_own_code(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a call leads into the project's code or a model, which may hold anything."""
    return any(
        isinstance(a, (Function, Bound, Class))
        or (isinstance(a, Instance) and (is_model(a) or isinstance(a.type, Class)))
        for a in _called(plan, node)
    )


def _called(plan: Plan, node: cst.CSTNode) -> Iterable[object]:
    """What a call may run."""
    called = plan.facts.values.get(node.func) if isinstance(node, cst.Call) else None
    return called.atoms if called is not None else ()
