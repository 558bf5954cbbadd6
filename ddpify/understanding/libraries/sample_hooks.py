"""Hooks that get a rank's samples, or their gradients, where one process has the whole batch's.

A hook is tried on a rank's rows. Where it lets the samples depend on each other, keeps or shows
them, or is not linear in a gradient, which is scaled by the number of ranks, it is called with the
rows of all ranks instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    given = [value(layer), several, *last]
    alone = _note(run, node, hook, given, gradient=name in _BACKWARD)
    if alone and name in _FORWARD:
        run.hooks[node, layer] = hook, not before


def called(
    run: RunState, node: cst.BaseExpression, model: Instance, given: Sequence[Value]
) -> None:
    """A model gets rows: its layers' hooks get some of these, and keep what is of this batch."""
    rows = [data for one in given for data in one.data if data.placement is Placement.SHARD]
    if not rows or not run.hooks:
        return
    loaders = frozenset(loader for data in rows for loader in data.loaders)
    data = value(Data(Placement.SHARD, loaders))
    for (_, layer), (hook, after) in list(run.hooks.items()):
        if run.modes.layers.holds(model, layer):
            args = [value(layer), value(Tup((data,))), *([data] if after else [])]
            for function, bound in _functions(hook):
                run.call_forward(node, function, [*bound, *args])


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
) -> bool:
    """Note a hook that gets rows or gradients of all ranks; whether it gets a rank's instead."""
    changed = run.reads_change
    if _treats_each_alone(run, node, hook, given, gradient=gradient):
        return True
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
    return False


def _gathered(one: Value) -> Value:
    """The rows of all ranks, in place of a rank's."""
    tuples = [a for a in one.atoms if isinstance(a, Tup)]
    if tuples:
        return value(Tup(tuple(_gathered(item) for item in tuples[0].items)))
    rows = [Data(Placement.REPLICATE, d.loaders, form=Layout.GATHERED) for d in one.data]
    return value(*rows) if rows else one


def _functions(hook: Value) -> Iterator[tuple[Function, list[Value]]]:
    """The functions that a hook may be, with the object that each is a method of."""
    for atom in hook.of(Function, Bound):
        if isinstance(atom, Bound):
            yield atom.function, [value(atom.receiver)]
        else:
            yield atom, []


def _treats_each_alone(
    run: RunState, node: cst.BaseExpression, hook: Value, given: list[Value], *, gradient: bool
) -> bool:
    """Whether a hook surely does the same with a rank's rows as with those of all."""
    functions = list(_functions(hook))
    if not functions or len(functions) < len(hook.atoms):
        return False
    for function, bound in functions:
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
