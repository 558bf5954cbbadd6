"""Operations along a dimension of one tensor: sums, orders, parts, statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.arithmetic.operation import Operation
from ddpify.understanding.arithmetic.tensor_dimensions import (
    ORDERING,
    OVER_A_DIMENSION,
    QUANTILES,
    along,
    coupled,
    goes_over_all,
    is_of_all_samples,
    keeps_dimensions,
    may_mix_rows,
    mixes_rows,
)
from ddpify.understanding.batching import collating
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import (
    NO_ROWS,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Number,
    Tup,
    Value,
    value,
)


def along_dimension(one: Operation) -> Value | None:
    """What goes along a dimension, or over all; None for other operations."""
    if one.name not in OVER_A_DIMENSION:
        return None
    if one.data.dim == NO_ROWS:
        return _of_a_sample(one)
    if one.data.counting and (one.run.module.editable or not one.run.frames_forward()):
        one.run.demand(one.operand, value(one.data), uses.POSITIONS)  # those of all ranks, then
        return value(one.data.placed(Placement.REPLICATE))
    return _by_weights(one) or _at_several(one) or _over_rows(one)


def _by_weights(one: Operation) -> Value | None:
    """``np.average(x, axis=0, weights=w)``, if rows weigh, or along the samples; None for others.

    All ranks compute it of the rows of all.
    """
    if one.name != "average" or not isinstance(one.node, cst.Call):
        return None
    given = one.node.args
    named = [a.value for a in given if a.keyword is not None and a.keyword.value == "weights"]
    shown = named or [a.value for a in given[2:3] if a.keyword is None]
    beside = [(weights, held) for weights in shown if (held := one.run.seen(weights)).data]
    if not beside:
        return None
    operands = [(one.operand, value(one.data)), *beside]
    return across_samples.coupled_operands(one.run, one.node, operands, rows=False)


def _at_several(one: Operation) -> Value | None:
    """``x.quantile(q, 1)`` with several ``q``, which lie along a new first dimension.

    All ranks compute it of the rows of all; None for other operations.
    """
    if one.name not in QUANTILES:
        return None
    told = one.rest[0] if one.rest else one.kwargs.get("q", UNKNOWN)
    if not any(map(_may_be_several, told.atoms)):
        return None
    across_samples.of_all_rows(one.run, one.operand, one.data)
    whole = replace(one.data.placed(Placement.REPLICATE), form=Layout.GATHERED)
    return value(replace(whole, dim=one.data.dim + 1))


def _may_be_several(told: Atom) -> bool:
    """Whether this may be a list or a tensor of numbers, and is no option of the command line."""
    if isinstance(told, Number):
        return told.ndim != 0 and told.setting is None
    return not isinstance(told, Const)


def _of_a_sample(one: Operation) -> Value:
    row = keeps_dimensions(one.name, one.rest, one.kwargs) and named_dimensions(
        one.rest, one.kwargs
    ) == [(0,)]
    left = replace(one.data, definition_sites=frozenset(), ndim=0)  # still of this sample alone
    form = Layout.TENSOR if one.run.collating else Layout.ROW
    return value(collating.one_row(left, form=form) if row else left)


def _over_rows(one: Operation) -> Value:
    run, data = one.run, one.data
    unsure = may_mix_rows(one.name, data, one.rest, one.kwargs)
    if unsure:
        run.facts.sizes.unsure_dimensions.setdefault(one.node, run.site(one.node))
    in_forward = _in_forward(one) if run.frames_forward() else None
    if in_forward is not None:
        return in_forward
    unsure = unsure and one.name in across_samples.KEPT
    if unsure and run.module.editable and not run.collating and data.form is Layout.TENSOR:
        return value(across_samples.on_all_rows(run, one.node, one.operand, data))
    made = along(run, one.name, data, one.rest, one.kwargs)
    named = named_dimensions(one.rest, one.kwargs)
    by_default = one.name in ORDERING and not data.ndim and () in named
    return _ordered(made, one.operand) if by_default else made


def _in_forward(one: Operation) -> Value | None:
    """A function along the samples of a forward's batch, or over all of it; None for others."""
    run, node, name, data = one.run, one.node, one.name, one.data
    if is_of_all_samples(name, data, one.rest, one.kwargs):
        return across_samples.of_all_rows(run, one.operand, data)
    over_all = goes_over_all(name, one.rest, one.kwargs)
    if run.module.editable or run.collating:
        mixed = across_samples.along_samples(
            run, node, name, one.operand, data, one.rest, one.kwargs
        )
        if mixed is None and over_all:
            mixed = across_samples.of_all_rows(run, one.operand, data)
        if mixed is not None:
            return mixed
    if over_all or mixes_rows(name, data, one.rest, one.kwargs):
        run.facts.forwards.statistics.setdefault(node, run.site(node))
    return None


def _ordered(made: Value, operand: cst.BaseExpression) -> Value:
    """What sorting gives where each sample may have one number: a use as an index will tell.

    Then the order is one of all samples, and the operand is what could be gathered.
    """
    atoms = (
        Tup(tuple(_ordered(item, operand) for item in a.items))
        if isinstance(a, Tup)
        else replace(a, definition_sites=frozenset({operand}))
        if isinstance(a, Data) and a.form is Layout.ORDER
        else a
        for a in made.atoms
    )
    return value(*atoms)


def normalised(one: Operation) -> Value | None:
    """What ``F.batch_norm`` gives; None for other operations."""
    if one.name != "batch_norm" or not _by_batch(one.rest, one.kwargs):
        return None
    run, data = one.run, one.data
    if run.frames_forward() and (run.module.editable or run.collating):
        return value(across_samples.on_all_rows(run, one.node, one.operand, data))
    return value(replace(data.placed(coupled(run)), definition_sites=frozenset()))


def _by_batch(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``F.batch_norm`` may normalise with the statistics of the batch."""
    given = kwargs.get("training") or (rest[4] if len(rest) > 4 else value(Const(False)))
    return given.constant() is not False
