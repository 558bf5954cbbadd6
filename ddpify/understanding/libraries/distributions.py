"""Distributions of PyTorch whose parameters are a rank's rows: what they give has the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import tensor_pairs
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.batching import handmade_batches
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries.instances import library_object
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import REPLICATED, Data, Instance, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

PREFIX = "torch.distributions."
# One draw of these is as long as the last dimension of their parameters.
_OVER_THE_LAST = frozenset(
    "Categorical OneHotCategorical OneHotCategoricalStraightThrough Multinomial Dirichlet"
    " MultivariateNormal RelaxedOneHotCategorical".split()
)
_LEAVING_FEWER = _OVER_THE_LAST | {"Independent", "LowRankMultivariateNormal"}
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


def method(
    run: RunState, node: cst.BaseExpression, distribution: Instance, name: str, args: list[Value]
) -> Value | None:
    """What a method gives of a distribution of rows, for rows if for any; None for others.

    Where either are those of all ranks, the others must be, too.
    """
    held = _held(distribution)
    if not held or name not in _GIVING_ROWS:
        return None
    whole = _of_all(run, [*held, *argument_pairs(node, args, {})])
    if whole is not None:
        over_samples = not args and _leaves_fewer(distribution) and any(map(_over_samples, held))
        return REPLICATED if over_samples else whole
    rows = _rows(distribution)
    if not rows or not all(map(_are_rows, args)):
        return None
    return value(_made_of(rows[0], fewer=_leaves_fewer(distribution)))


def _leaves_fewer(distribution: Instance) -> bool:
    return distribution.kind.rsplit(".", 1)[-1] in _LEAVING_FEWER


def _over_samples(operand: Operand) -> bool:
    """Whether the last dimension of a parameter is that of the samples."""
    return any(map(_chooses_samples, operand[1].of(Data)))


def _made_of(rows: Data, *, fewer: bool) -> Data:
    """What a distribution of rows gives, of as many dimensions as they have, or of one less."""
    made = rows.placed(Placement.SHARD)
    if fewer:
        return replace(made, one_each=dimensions.may_leave_one_each(rows, 1))
    one_each = rows.one_each or rows.ndim == 1
    return replace(made, one_each=one_each, ndim=rows.ndim, relative=rows.relative)


def divergence(run: RunState, args: list[Value]) -> Value | None:
    """``kl_divergence(q, p)``: one for each row that the distributions were made with."""
    made = [one for given in args for one in given.of(Instance)]
    whole = _of_all(run, [operand for one in made for operand in _held(one)])
    rows = [data for one in made for data in _rows(one)]
    fewer = any(map(_leaves_fewer, made))
    return whole or (value(_made_of(rows[0], fewer=fewer)) if rows else None)


def _of_all(run: RunState, operands: list[Operand]) -> Value | None:
    """What is computed of the rows of all ranks where one of the operands is; else None."""
    held = tensor_pairs.held_tensors(operands)
    whole = [data for _, data in held if data is not None and data.form is Layout.GATHERED]
    if not whole:
        return None
    tensor_pairs.beside_replicated(run, held)
    return value(replace(whole[0].placed(Placement.REPLICATE), form=Layout.GATHERED))


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
    known = bool(rows) and name in _ATTRIBUTES
    return value(_made_of(rows[0], fewer=False)) if known else None


def _rows(distribution: Instance) -> list[Data]:
    rows = (data for _, one in _held(distribution) for data in one.data)
    return [data for data in rows if data.placement is Placement.SHARD]


def _held(distribution: Instance) -> list[Operand]:
    """What a distribution, or the one that it is made of, was made of, and where."""
    made = distribution.site
    if not distribution.kind.startswith(PREFIX) or not isinstance(made, cst.Call):
        return []
    named = {one.keyword.value: one.value for one in made.args if one.keyword is not None}
    shown = {**{str(i): one.value for i, one in enumerate(made.args)}, **named}
    found: list[Operand] = []
    for key, held in distribution.arguments.items():
        tensors = value(*held.of(Data))
        found += [(shown.get(key, made), tensors)] if tensors else []
        found += [operand for one in held.of(Instance) for operand in _held(one)]
    return found
