"""Distributions of PyTorch whose parameters are a rank's rows: what they give has the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.batching import handmade_batches
from ddpify.understanding.libraries.instances import library_object
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data, Instance, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

PREFIX = "torch.distributions."
# One draw of these is as long as the last dimension of their parameters.
_OVER_THE_LAST = frozenset(
    "Categorical OneHotCategorical OneHotCategoricalStraightThrough Multinomial Dirichlet"
    " MultivariateNormal RelaxedOneHotCategorical".split()
)
_GIVING_ROWS = frozenset("entropy log_prob cdf icdf perplexity".split())
_ATTRIBUTES = frozenset("mean mode stddev variance probs logits loc scale".split())


def made(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """``Categorical(logits=x)``; where the choices are the samples themselves, it gets them all.

    A mean or a sum over the rows, as in ``Normal(x.mean(0), 1)``, must be that of all ranks.
    """
    for shown, one in argument_pairs(node, args, kwargs):
        numbers = (d for d in one.data if d.placement.partial or d.placement is Placement.COUPLED)
        run.demand(shown, value(*numbers), uses.ARITHMETIC)
    if name.rsplit(".", 1)[-1] in _OVER_THE_LAST:
        for shown, one in argument_pairs(node, args, kwargs):
            for data in one.data:
                if data.placement is Placement.SHARD and _chooses_samples(data):
                    run.demand(shown, value(data), uses.A_STATISTIC)
    return library_object(run, node, name, args, kwargs)


def _chooses_samples(rows: Data) -> bool:
    """Whether the last dimension of rows is, or may be, that of the samples."""
    return rows.ndim == rows.dim + 1 or (rows.one_each and not rows.ndim)


def method(distribution: Instance, name: str, args: list[Value]) -> Value | None:
    """What a method gives of a distribution of rows, for rows if for any; None for others."""
    rows = _rows(distribution)
    if not rows or name not in _GIVING_ROWS or not all(map(_are_rows, args)):
        return None
    return value(rows[0].placed(Placement.SHARD))


def _are_rows(given: Value) -> bool:
    rows = (isinstance(a, Data) and a.placement is Placement.SHARD for a in given.atoms)
    return bool(given) and all(rows)


def meet(
    run: RunState, node: cst.BaseExpression, distribution: Instance, args: list[Value]
) -> None:
    """``log_prob(actions)`` takes a row for each of the distribution's: batches are split alike."""
    rows = _rows(distribution)
    if rows and args:
        handmade_batches.meet(run, [(node, value(rows[0])), *argument_pairs(node, args, {})])


def attribute(distribution: Instance, name: str) -> Value | None:
    """The same for an attribute."""
    rows = _rows(distribution)
    return value(rows[0].placed(Placement.SHARD)) if rows and name in _ATTRIBUTES else None


def _rows(distribution: Instance) -> list[Data]:
    if not distribution.kind.startswith(PREFIX):
        return []
    held = (data for one in distribution.arguments.values() for data in one.data)
    return [data for data in held if data.placement is Placement.SHARD]
