"""Scalers of float16 losses, and whether anything reads gradients while they are scaled."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.gradient_readers import gradient_readers, steps
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import GRAD_SCALERS
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import UNKNOWN, Instance


def scalers(plan: Plan) -> Iterator[Site]:
    """Where scalers are made that are not switched off for good."""
    for name, site in plan.facts.calls_to(*GRAD_SCALERS):
        assert isinstance(site.node, cst.Call)
        enabled = argument(site.node, "enabled", 4 if name.startswith("torch.cuda") else 5)
        held = plan.facts.values.get(enabled.value, UNKNOWN) if enabled is not None else UNKNOWN
        if held.constant() is not False:
            yield site


def are_read_unscaled(plan: Plan) -> bool:
    """Whether all that reads gradients comes after their unscaling, in every way to it.

    The scaled losses must start a backward, and be used for nothing else.
    """
    if plan.facts.gradients.gradient_hooks:
        return False
    if not all(_starts_backward(site) for site in _calls(plan, "scale")):
        return False
    unscaling = list(_calls(plan, "unscale_"))
    return all(
        steps(plan.facts, reader.node) or _comes_after(plan, reader, unscaling, frozenset())
        for reader in gradient_readers(plan.facts, plan.project)
    )


def _calls(plan: Plan, method: str) -> Iterator[Site]:
    """The calls of a method of what is, or may be, a scaler."""
    for file in plan.project.files:
        for call in file.structure.all(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == method:
                held = plan.facts.values.get(call.func.value, UNKNOWN)
                if any(one.kind in GRAD_SCALERS for one in held.of(Instance)):
                    yield Site(call, file)


def _starts_backward(site: Site) -> bool:
    """``scaler.scale(loss).backward()``, or the same by way of a name."""
    structure = site.module.structure
    above = structure.parents[site.node]
    if isinstance(above, cst.Attribute):
        return above.attr.value == "backward"
    if not isinstance(above, cst.Assign) or not isinstance(above.targets[0].target, cst.Name):
        return isinstance(above, cst.Expr)
    name = above.targets[0].target.value
    function = structure.function(site.node)
    uses = (
        one
        for one in structure.all(cst.Name)
        if one.value == name and structure.function(one) is function
    )
    return all(_is_written_or_starts(site, one) for one in uses)


def _is_written_or_starts(site: Site, name: cst.Name) -> bool:
    above = site.module.parents[name]
    if isinstance(above, cst.Attribute):
        return above.value is name and above.attr.value == "backward"
    return isinstance(above, (cst.AssignTarget, cst.Del))


def _comes_after(
    plan: Plan, reader: Site, unscaling: list[Site], seen: frozenset[cst.CSTNode]
) -> bool:
    """Whether gradients are unscaled before a reader in its function, or in all that call it."""
    structure = reader.module.structure
    function = structure.function(reader.node)
    guards = {(one.statement, one.positive) for one in structure.guards(reader.node)}
    for one in unscaling:
        if one.module is reader.module and structure.function(one.node) is function:
            theirs = {(g.statement, g.positive) for g in structure.guards(one.node)}
            if theirs <= guards and structure.order[one.node] < structure.order[reader.node]:
                return True
    if function is None or function in seen:
        return False
    callers = plan.facts.callers.get(function, set())
    return bool(callers) and all(
        _comes_after(plan, one, unscaling, seen | {function}) for one in callers
    )
