"""Functions with a backward of the script's own, as ``Clamp.apply(x)`` calls them.

Their forward and their backward are tried on a rank's rows. Where either lets the samples depend
on each other, or the backward is not linear in the gradient, which is scaled by the number of
ranks, all ranks apply the function to the rows of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, local_data
from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import opaque
from ddpify.understanding.libraries.trial_runs import mixes
from ddpify.understanding.linearity import is_linear
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Class,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


CONTEXT = "torch.autograd.function.FunctionCtx"


def apply(
    run: RunState, node: cst.BaseExpression, made: Class, args: list[Value], kwargs: Keywords
) -> Value:
    """``Clamp.apply(x, low)``: rows where it treats each sample alone."""
    rows = {number for number, one in enumerate(args) if _is_rows(one)}
    shown = _expressions(node, rows)
    if rows and shown and run.module.editable:
        result, alone = _tried(run, node, made, args, rows)
        if not alone:
            run.facts.forwards.applied_to_all.add(made.node)
            return _on_all_rows(run, node, shown, [args[number] for number in rows], result)
    run.facts.forwards.applied.setdefault(made.node, set()).update(rows)
    if rows and run.frames_forward():
        held = value(run.instance(made.node, made.module, CONTEXT))
        context = [] if made.find("setup_context") else [held]
        for function in (made.find("forward") or UNKNOWN).of(Function):
            run.call(node, value(function), [*context, *args], {})
    return opaque.opaque(run, node, None, args, kwargs)


def _is_rows(one: Value) -> bool:
    return any(data.placement is Placement.SHARD for data in local_data(one))


def _expressions(node: cst.BaseExpression, rows: set[int]) -> list[cst.BaseExpression]:
    """The arguments that are rows, as they are written; none where they are not told apart."""
    given = node.args if isinstance(node, cst.Call) else ()
    if any(one.star or one.keyword for one in given) or any(n >= len(given) for n in rows):
        return []
    return [given[number].value for number in sorted(rows)]


def _tried(
    run: RunState, node: cst.BaseExpression, made: Class, args: list[Value], rows: set[int]
) -> tuple[Value, bool]:
    """What the forward gives, and whether forward and backward treat each sample alone."""
    forward, backward = _method(made, "forward"), _method(made, "backward")
    if forward is None or backward is None:
        return UNKNOWN, False
    context = run.instance(made.node, made.module, CONTEXT)
    set_up = _method(made, "setup_context")
    with run.trying(forward) as learned:
        before = [] if set_up is not None else [value(context)]
        result = run.call_forward(node, forward, [*before, *args])
        if set_up is not None:
            run.call_forward(node, set_up, [value(context), value(Tup(tuple(args))), result])
    alone = not mixes(learned)
    gradients = [replace(d.placed(Placement.SHARD), dim=d.dim, ndim=d.ndim) for d in _rows(result)]
    if not alone or not gradients:
        return result, alone
    with run.trying(backward) as learned:
        given = run.call_forward(node, backward, [value(context), value(gradients[0])])
    names = [one.name.value for one in backward.node.params.params[1:]]
    linear = is_linear(backward.node, names)
    return result, linear and not mixes(learned) and _are_rows(given, rows)


def _method(made: Class, name: str) -> Function | None:
    found = list((made.find(name) or UNKNOWN).of(Function))
    return found[0] if len(found) == 1 else None


def saved(context: Instance, name: str, args: list[Value]) -> Value:
    """A method of ``ctx``: what it saves, the backward may have."""
    if name == "save_for_backward":
        context.hold("saved_tensors", value(Tup(tuple(args))))
    return UNKNOWN


def _rows(result: Value) -> list[Data]:
    return [d for d in result.data if d.placement is Placement.SHARD and not d.opaque]


def _are_rows(given: Value, rows: set[int]) -> bool:
    """Whether a backward gives each argument that is rows a gradient with its rows.

    Those of weights are sums over a rank's rows, which add up to the sum over all.
    """
    tuples = list(given.of(Tup))
    items = [given] if not tuples else list(tuples[0].items)
    for number, item in enumerate(items):
        placements = {data.placement for data in item.data}
        wanted = {Placement.SHARD} if number in rows else {Placement.SUM, Placement.SHARD}
        if not placements <= wanted:
            return False
    return len(tuples) <= 1


def _on_all_rows(
    run: RunState,
    node: cst.BaseExpression,
    shown: list[cst.BaseExpression],
    given: list[Value],
    result: Value,
) -> Value:
    """What the function makes of the rows of all ranks: each takes its own of the result."""
    rows = _rows(result)
    data = next(d for d in given[0].data if d.placement is Placement.SHARD)
    if rows and rows[0].dim == data.dim and rows[0].form is not Layout.GATHERED:
        made = across_samples.on_all_rows(run, node, shown[0], data)
        known = run.facts.rows.regrouped[node]
        run.facts.rows.regrouped[node] = replace(known, others=tuple(shown[1:]), own_backward=True)
        return value(made)
    for expression, one in zip(shown, given, strict=True):
        run.demand(expression, value(*one.data), uses.A_STATISTIC)
    return REPLICATED
