"""What enters a model: batches that the script makes by hand are known by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.batching import handmade_batches, per_sample_lists
from ddpify.understanding.values import Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def entered(
    run: RunState,
    node: cst.BaseExpression,
    model: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> tuple[list[Value], Keywords]:
    """The arguments of a model, in which batches that the script makes by hand are noted."""
    shown = argument_pairs(node, args, kwargs)
    operands = [(expression, per_sample_lists.rows(held)) for expression, held in shown]
    handmade_batches.meet(run, operands)
    held = handmade_batches.enter(run, node, model, operands)
    return held[: len(args)], dict(zip(kwargs, held[len(args) :], strict=True))
