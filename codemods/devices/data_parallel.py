"""Let no rank's DataParallel spread over all devices: each rank has one of its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.other_kinds import spread_by_hand
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import code_of
from ddpify.understanding.three_valued import COMPARING
from ddpify.understanding.values import Instance, Tup, deep_atoms

_KEYED = frozenset(
    "state_dict load_state_dict named_parameters named_buffers named_modules named_children".split()
)


def edit(plan: Plan, edits: Edits) -> None:
    """Take each DataParallel away, or keep it on one device where its keys are seen.

    A wrapped model's parameters are called ``module.x``, in checkpoints too. On one GPU a script
    that asks whether there are more has no wrapper; any other keeps its names.
    """
    kept: set[Instance] = set()
    for site in _sites(plan):
        assert isinstance(site.node, cst.Call)
        if is_kept(plan, site):
            kept.update(_models_at(plan, site.node))
            _pin(plan, edits, site.node)
            edits.note(site, "DataParallel on the device of this rank", rule="data-parallel")
        else:
            _drop(site.module, edits, site.node)
            edits.note(
                site, "no DataParallel: each rank works on its own device", rule="data-parallel"
            )
    _drop_unwraps(plan, edits, kept)
    for _, site in plan.facts.calls_to("torch.nn.parallel.data_parallel"):
        if site.module.editable:
            _call_directly(plan, edits, site)


def _call_directly(plan: Plan, edits: Edits, site: Site) -> None:
    """``data_parallel(model, x, devices)`` becomes ``model(x)``."""
    assert isinstance(site.node, cst.Call)
    given = [one.value for one in site.node.args if one.keyword is None and not one.star]
    shown = given[1] if len(given) > 1 else None
    held = plan.facts.values.get(shown) if shown is not None else None
    tuple_ = held is not None and any(isinstance(atom, Tup) for atom in held.atoms)
    if shown is None or tuple_ or _has_other_options(site.node):
        plan.refuse(spread_by_hand(site))
        return

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        model, rows = updated.args[0].value, updated.args[1].value
        return updated.with_changes(func=model, args=[cst.Arg(rows)])

    edits.change(site.node, change)
    edits.note(site, "no DataParallel: each rank works on its own device", rule="data-parallel")


def _has_other_options(call: cst.Call) -> bool:
    named = {one.keyword.value for one in call.args if one.keyword is not None}
    return not named <= {"device_ids", "output_device"} or len(call.args) - len(named) > 4


def is_kept(plan: Plan, site: Site) -> bool:
    """Whether a DataParallel stays, on one device, for its names of parameters."""
    held = {model for one in _sites(plan) for model in _models_at(plan, one.node)}
    return not _asks_for_more(site) and any(_keys_are_seen(plan, model) for model in held)


def _sites(plan: Plan) -> list[Site]:
    calls = plan.facts.calls_to("torch.nn.DataParallel")
    return [
        s for _, s in calls if s.module.editable and isinstance(s.node, cst.Call) and s.node.args
    ]


def _models_at(plan: Plan, node: cst.CSTNode) -> list[Instance]:
    return [
        model
        for model, events in plan.facts.events.items()
        if any(e.kind == "parallel" and e.site.node is node for e in events)
    ]


def _tests_around(site: Site) -> Iterator[cst.BaseExpression]:
    """The conditions of the branches that a place stands in."""
    for node in site.module.structure.up(site.node):
        if isinstance(node, (cst.If, cst.IfExp)):
            yield node.test


def _asks_for_more(site: Site) -> bool:
    """Whether it stands where a question for more than one device has been answered with yes."""
    inside = site.node
    for node in site.module.structure.up(site.node):
        if (
            isinstance(node, (cst.If, cst.IfExp))
            and inside is not node.test
            and _needs_more(node.test, inside is node.body)
        ):
            return True
        inside = node
    return False


def _needs_more(test: cst.BaseExpression, holds: bool) -> bool:
    """Whether a condition has that outcome only where there is more than one device."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _needs_more(test.expression, not holds)
    if isinstance(test, cst.BooleanOperation):
        parts = (_needs_more(test.left, holds), _needs_more(test.right, holds))
        return any(parts) if isinstance(test.operator, cst.And) is holds else all(parts)
    alone = _with_one_device(test)
    return "device_count" in code_of(test) if alone is None else alone is not holds


def _with_one_device(test: cst.BaseExpression) -> bool | None:
    """What a comparison of a number of devices with a literal says of one; None for any other.

    ``device_count()`` is one. So is whatever is asked whether it is more than 1.
    """
    if isinstance(test, cst.Call) and code_of(test).endswith("device_count()"):
        return True
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    comparison = test.comparisons[0]
    compare, bound = COMPARING.get(type(comparison.operator)), comparison.comparator
    if compare is None or not isinstance(bound, cst.Integer):
        return None
    one, two = (bool(compare(number, bound.evaluated_value)) for number in (1, 2))
    counts = one is not two or "device_count" in code_of(test.left)
    return one if counts else None


def _keys_are_seen(plan: Plan, model: Instance) -> bool:
    """Whether the script uses the wrapped model's names of parameters, or saves it whole."""
    for node, held in plan.facts.values.items():
        if model not in held.atoms or node in plan.facts.runtime.unwraps:
            continue
        module = plan.project.owner(node)
        user = module.parents.get(node) if module is not None else None
        if isinstance(user, cst.Attribute) and user.value is node and user.attr.value in _KEYED:
            return True
    return any(_holds(plan, site.node, model) for _, site in plan.facts.calls_to("torch.save"))


def _holds(plan: Plan, saving: cst.CSTNode, model: Instance) -> bool:
    if not isinstance(saving, cst.Call) or not saving.args:
        return False
    saved = saving.args[0].value
    held = plan.facts.values.get(saved)
    return (
        held is not None and saved not in plan.facts.runtime.unwraps and model in deep_atoms(held)
    )


def _pin(plan: Plan, edits: Edits, node: cst.Call) -> None:
    """``DataParallel(model, device_ids=[dd.device()])``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        return updated.with_changes(args=[_alone(updated.args[0], updated.args[-1])])

    edits.change(node, change)
    edits.add_keyword(node, f"device_ids=[{plan.options.alias}.device()]")


def _alone(first: cst.Arg, last: cst.Arg) -> cst.Arg:
    """The first of several arguments, with the last's way to the closing parenthesis."""
    return first.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)


def _drop(module: ModuleFile, edits: Edits, node: cst.Call) -> None:
    """Take a wrapper away, with all of its statement where that is ``m = DataParallel(m)``."""
    statement = module.statement(node)
    parent = module.parents[node]
    if (
        isinstance(parent, cst.Assign)
        and node.args
        and code_of(parent.targets[0].target) == code_of(node.args[0].value)
        and isinstance(statement, cst.SimpleStatementLine)
        and len(statement.body) == 1
    ):
        _remove(module, edits, statement)
        return

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        return updated.args[0].value

    edits.change(node, change)


def _remove(module: ModuleFile, edits: Edits, statement: cst.BaseStatement) -> None:
    """Take a statement out, and the branch that nothing stands under any more."""
    edits.remove(statement)
    holder = module.parents.get(module.parents[statement])
    if not isinstance(holder, (cst.If, cst.Else)) or not isinstance(holder.body, cst.IndentedBlock):
        return
    if not edits.removed.issuperset(holder.body.body):
        return
    above = module.parents[holder]
    if isinstance(holder, cst.Else) and isinstance(above, cst.If):
        edits.change(above, lambda updated: updated.with_changes(orelse=None))
    elif isinstance(above, (cst.IndentedBlock, cst.Module)) and holder.orelse is None:  # type: ignore[union-attr]
        edits.remove(holder)


def _drop_unwraps(plan: Plan, edits: Edits, kept: set[Instance]) -> None:
    """Without DataParallel, ``model.module`` is the model itself."""
    for node, site in plan.facts.runtime.unwraps.items():
        guarded = any("module" in code_of(test) for test in _tests_around(site))
        held = plan.facts.values.get(node)
        if guarded or (held is not None and not kept.isdisjoint(deep_atoms(held))):
            continue
        if site.module.editable and isinstance(node, cst.Attribute):
            edits.change(node, lambda updated: updated.value)  # type: ignore[attr-defined]
            edits.note(
                site, "the model itself, which DataParallel no longer wraps", rule="data-parallel"
            )
