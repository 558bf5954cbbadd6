"""Draw random rows for the whole batch on every rank, and let each keep its own."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.data.global_sizes import global_count, global_shape
from ddpify.codemods.models.trained_models import trained_models

from ddpify.planning import replicated_statements
from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Draw, Site
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import brief, code_of
from ddpify.understanding.taint.sources import draws
from ddpify.understanding.values import UNKNOWN, Instance

_RULE = "same-seed-everywhere"


def edit(plan: Plan, edits: Edits) -> None:
    """Change the draws outside of a wrapped model's forward, where ranks share the generators."""
    alias, wrapped = plan.options.alias, frozenset(trained_models(plan))
    random = plan.facts.random
    for node, site in random.drawn_again.items():
        if node in random.alike or node in random.shared_draws:
            plan.refuse(_for_backward(site))
    for call in plan.choices.replicated_statements.values():
        _put_under_replicated(plan, edits, call)
    for node, site in plan.facts.random.made_replicated.items():
        if isinstance(node, cst.BaseExpression) and not is_gathered(plan, node):
            edits.wrap(node, f"{alias}.split")
            edits.note(site, _text(node), rule=_rule_of(plan, node))
    for node, site in plan.facts.rows.replicated_rows.items():
        assert isinstance(node, cst.BaseExpression)
        if site.module.editable and not is_gathered(plan, node):
            edits.wrap(node, f"{alias}.split", _perhaps_own(plan, node))
            edits.note(site, _text(node), rule=_rule_of(plan, node))
    for node, draw in plan.facts.random.counted_slices.items():
        assert isinstance(node, cst.Subscript)
        whole = is_gathered(plan, node)
        _change(node, draw, alias, edits, _perhaps_own(plan, node.value), whole=whole)
        edits.note(draw.site, _text(node, whole=whole), rule=_rule_of(plan, node))
    for node, site in plan.facts.random.ragged.items():
        assert isinstance(node, cst.Call)
        edits.wrap(node.func, f"{alias}.drawn_ragged")
        edits.note(site, _text(node), rule=_RULE)
    for node, draw in plan.facts.random.draws.items():
        if not draw.site.module.editable or not _is_shared(draw, wrapped):
            continue
        if node in plan.facts.random.drawn_replicated:
            plan.refuse(_for_both(draw))
        elif isinstance(node, cst.Call):
            _keep_others_replicated(plan, edits, draw)
            whole = is_gathered(plan, node)
            _change(node, draw, alias, edits, whole=whole)
            edits.note(draw.site, _text(node, whole=whole), rule=_RULE)


def is_gathered(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether what makes the whole batch's rows on every rank is to keep them all."""
    random = plan.facts.random
    drawn = node in random.draws or node in random.counted_slices
    makes = drawn or node in random.made_replicated or node in plan.facts.rows.replicated_rows
    return makes and node in plan.reductions and plan.reductions[node].how == "gather"


def _perhaps_own(plan: Plan, node: cst.BaseExpression) -> str:
    """Says of rows for a whole batch that they are a rank's own where they come another way."""
    held = plan.facts.values.get(node, UNKNOWN).data
    own = any(data.placement is Placement.SHARD and data.dim == 0 for data in held)
    return ', rows="own"' if own else ""


def _rule_of(plan: Plan, node: cst.CSTNode) -> str:
    """The rule of random numbers, where any are drawn: ``torch.ones(len(x))`` has no seed."""
    drawn = any(
        draws(name)
        for one in walk(node)
        if isinstance(one, cst.Call)
        for name in library_names(plan.facts.values.get(one.func))
    )
    return _RULE if drawn else ""


def _is_shared(draw: Draw, wrapped: frozenset[Instance]) -> bool:
    """Whether ranks draw from one generator, somewhere that rows are known to be the batch's."""
    outside = [models for models in draw.inside if draw.shared or not models & wrapped]
    return not all(outside) if draw.given and not draw.shared else bool(outside)


def _text(node: cst.BaseExpression, *, whole: bool = False) -> str:
    rows = "all rows of the batch" if whole else "this rank's rows of the global batch's"
    return f"{brief(node)}: {rows}"


def _keep_others_replicated(plan: Plan, edits: Edits, draw: Draw) -> None:
    """Let calls that lead here with replicated values run under ``replicated()``."""
    node = draw.site.node
    parts = plan.facts.random.drawn_through.get(node, set())
    known = {call for path in parts for call in path}
    for path in plan.facts.random.drawn_replicated_through.get(node, set()) - parts:
        call = replicated_statements.site(plan.facts, path, known)
        if call is None:
            plan.refuse(_for_both(draw))
        else:
            _put_under_replicated(plan, edits, call)


def _put_under_replicated(plan: Plan, edits: Edits, call: Site) -> None:
    edits.put_under(call.module.statement(call.node), f"with {plan.options.alias}.replicated():")
    text = f"{brief(call.node)}: draws the same numbers on all ranks, not rows of the batch"
    edits.note(call, text, rule=_RULE)


def _for_backward(site: Site) -> Refusal:
    return Refusal(
        site.module,
        site.node,
        "it draws for all samples in what is computed again in backward, where ranks would draw"
        " something else",
        "draw before the call of torch.utils.checkpoint, and pass what was drawn",
    )


def _for_both(draw: Draw) -> Refusal:
    return Refusal(
        draw.site.module,
        draw.site.node,
        "it draws random rows for the batch in one call and replicated numbers in another",
        "give the batch a call of its own",
    )


def _change(
    node: cst.BaseExpression, draw: Draw, alias: str, edits: Edits, own: str = "", *, whole: bool
) -> None:
    extra = f", dim={draw.dim}" if draw.dim else ""
    for size in draw.counts:
        global_count(size, alias, edits)
    for shape in draw.shapes:
        global_shape(shape, alias, extra, edits)
    for tensor in draw.alike:
        edits.wrap(tensor, f"{alias}.global_like", extra)
    for rows in draw.given:
        edits.wrap(rows, f"{alias}.gather")
    if draw.filled is not None:
        edits.wrap(draw.filled, f"{alias}.global_like", extra)
    if not whole:
        edits.wrap(node, f"{alias}.split", extra + own)
    if draw.filled is not None and not _is_new(draw.filled):
        _keep(node, draw.filled, edits)


def _is_new(filled: cst.BaseExpression) -> bool:
    """Whether what is filled has no name: a call makes it, and does not return what it changed."""
    if not isinstance(filled, cst.Call):
        return False
    name = filled.func.attr if isinstance(filled.func, cst.Attribute) else filled.func
    return not code_of(name).endswith("_")


def _keep(node: cst.BaseExpression, filled: cst.BaseExpression, edits: Edits) -> None:
    """``x.normal_()`` goes on to fill x: ``x.copy_(split(global_like(x).normal_()))``."""
    target = code_of(filled)

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        made = cst.parse_expression(f"{target}.copy_(_)")
        assert isinstance(made, cst.Call) and isinstance(updated, cst.BaseExpression)
        return made.with_changes(args=[made.args[0].with_changes(value=updated)])

    edits.change(node, change)
