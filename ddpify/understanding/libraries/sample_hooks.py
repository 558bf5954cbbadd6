"""Hooks that get a rank's samples, or their gradients, where one process has the whole batch's.

A hook is tried on a rank's rows. Where it lets the samples depend on each other, keeps or shows
them, or is not linear in a gradient, which is scaled by the number of ranks, it is called with the
rows of all ranks instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.facts import SampleHook
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries.trial_runs import mixes
from ddpify.understanding.linearity import is_linear
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    Bound,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_FORWARD = ("register_forward_hook", "register_forward_pre_hook")
_BACKWARD = (
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
)
OF_LAYERS = (*_FORWARD, *_BACKWARD)


def of_layer(
    run: RunState, node: cst.BaseExpression, name: str, hook: Value, layer: Instance
) -> None:
    """Note a hook of a layer that gets samples, or gradients of samples."""
    data = Data(Placement.SHARD, frozenset())
    before = name.endswith("_pre_hook")
    several = value(Tup((value(data),)))
    last = [] if before else [value(data) if name in _FORWARD else several]
    _note(run, node, hook, [value(layer), several, *last], gradient=name in _BACKWARD)


def of_rows(run: RunState, node: cst.BaseExpression, rows: Data, hook: Value) -> None:
    """Note a hook on the gradient of samples."""
    plain = Data(Placement.SHARD, rows.loaders, dim=rows.dim, ndim=rows.ndim)
    _note(run, node, hook, [value(plain)], gradient=True, dim=rows.dim)


def _note(
    run: RunState,
    node: cst.BaseExpression,
    hook: Value,
    given: list[Value],
    *,
    gradient: bool,
    dim: int = 0,
) -> None:
    changed = run.reads_change
    if _treats_each_alone(run, node, hook, given, gradient=gradient):
        return
    run.undo_tried()
    run.reads_change = changed
    run.facts.forwards.sample_hooks.setdefault(node, SampleHook(run.site(node), gradient, dim))
    replicated = [_gathered(one) for one in given]
    if any(hook.of(Function, Bound)):
        made = run.call(node, hook, replicated, {})
        held = [a for a in made.atoms if isinstance(a, Data)]
        rowless = bool(held) and all(a.reduced for a in held)
        known = run.facts.forwards.sample_hooks[node]
        run.facts.forwards.sample_hooks[node] = replace(known, rowless=known.rowless or rowless)


def _gathered(one: Value) -> Value:
    """The rows of all ranks, in place of a rank's."""
    tuples = [a for a in one.atoms if isinstance(a, Tup)]
    if tuples:
        return value(Tup(tuple(_gathered(item) for item in tuples[0].items)))
    rows = [Data(Placement.REPLICATE, d.loaders, form=Layout.GATHERED) for d in one.data]
    return value(*rows) if rows else one


def _treats_each_alone(
    run: RunState, node: cst.BaseExpression, hook: Value, given: list[Value], *, gradient: bool
) -> bool:
    """Whether a hook surely does the same with a rank's rows as with those of all."""
    functions = [a.function if isinstance(a, Bound) else a for a in hook.atoms]
    if not functions or not all(isinstance(one, Function) for one in functions):
        return False
    for atom, function in zip(hook.atoms, functions, strict=True):
        assert isinstance(function, Function)
        bound = [value(atom.receiver)] if isinstance(atom, Bound) else []
        with run.trying(function) as learned:
            made = run.call_forward(node, function, [*bound, *given])
        rows = all(data.placement is Placement.SHARD and not data.opaque for data in made.data)
        replaced = any(isinstance(a, Data) and not a.placement.local for a in made.atoms)
        if mixes(learned) or not rows or replaced:
            return False
        names = [one.name.value for one in function.node.params.params[len(bound) :]]
        if gradient and not is_linear(function.node, names):
            return False
    return True
