"""Samples that a collate function takes by their places, and puts back into a list.

``[samples[0], *samples]`` has the first of the batch once more: a rank's first is another one. To
look at it, as ``samples[0].keys()`` does, says nothing of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching import collating_order, sample_numbers
from ddpify.understanding.forms import Layout
from ddpify.understanding.values import Data, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# Methods of a list that change how many items it has, or where these lie.
MOVING_ITEMS = frozenset("append clear extend insert pop remove reverse".split())


def put_into_list(run: RunState, node: cst.BaseExpression, item: Value) -> None:
    """Note that the samples of a batch depend on each other, if a list takes one by its place."""
    if not run.collating:
        return
    taken = (d for d in sample_numbers.samples_in(item) if isinstance(d.form, Layout))
    if any(one.fixed_places for one in taken):
        collating_order.depend(run, node, item)


def changed(run: RunState, node: cst.CSTNode, samples: Data, method: str) -> None:
    """Note that a method changes the list of samples that a collate function gets."""
    if run.collating and samples.form is Layout.SAMPLES and method in MOVING_ITEMS:
        run.mixes(node, replace(samples, form=Layout.TENSOR))
