"""Layers of PyTorch whose result for a sample depends on the others of the batch.

They get the rows of all ranks, and each rank takes its own of the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.batching import batch_layers
from ddpify.understanding.forms import Form
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import REPLICATED, UNKNOWN, Data, Instance, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What these do to the weights goes by all indices of the batch: the option, and its position.
_BY_ALL_INDICES = {
    "torch.nn.Embedding": {"max_norm": "3", "scale_grad_by_freq": "5"},
    "torch.nn.EmbeddingBag": {"max_norm": "2", "scale_grad_by_freq": "4"},
}
OF_A_DIMENSION = {
    "torch.nn.Softmax": "softmax",
    "torch.nn.LogSoftmax": "log_softmax",
    "torch.nn.Softmin": "softmin",
    "torch.nn.CosineSimilarity": "cosine_similarity",
}
_SEQUENTIAL = "torch.nn.Sequential"
# These take a batch of so many dimensions, or a single sample with one less.
_OF_BATCHES = {
    f"torch.nn.{name}{places}d": places + 2
    for places in (1, 2, 3)
    for name in (
        "Conv ConvTranspose LazyConv LazyConvTranspose MaxPool AvgPool AdaptiveAvgPool"
        " AdaptiveMaxPool LPPool FractionalMaxPool MaxUnpool InstanceNorm LazyInstanceNorm"
        " ReflectionPad ReplicationPad CircularPad ZeroPad ConstantPad"
    ).split()
}


def through(
    run: RunState, node: cst.BaseExpression, layer: Instance, args: list[Value]
) -> Value | None:
    """What such a layer makes of rows; None for layers that treat each sample alone."""
    rows = [d for one in args[:1] for d in one.data if d.placement is Placement.SHARD]
    if _sums_up_bags(layer, args):
        shown = node.args[0].value if isinstance(node, cst.Call) and node.args else node
        return across_samples.of_all_rows(run, shown, rows[0]) if rows else REPLICATED
    if len(rows) != 1 or not isinstance(node, cst.Call) or not node.args:
        return None
    if _takes_all_indices(layer) or _goes_along(layer, rows[0]) or _mistakes(layer, rows[0]):
        return _split_again(run, node, node, rows[0])
    if not batch_layers.goes_along_rows(layer, args):
        return None
    if not run.module.editable and not run.collating:
        run.facts.along_rows.setdefault(node, run.site(node))
        return None
    above = run.module.parents[node]
    if isinstance(above, cst.Subscript) and _is_first(above):
        made = _split_again(run, node, above, rows[0])
        return value(Tup((made, REPLICATED)))
    made = across_samples.of_all_rows(run, node.args[0].value, rows[0])
    replicated = replace(rows[0].placed(Placement.REPLICATE), form=Form.GATHERED, ndim=rows[0].ndim)
    return value(Tup((value(replicated), made)))


def _sums_up_bags(layer: Instance, args: list[Value]) -> bool:
    """Whether an EmbeddingBag is told by numbers that all ranks share where its bags begin."""
    if layer.kind != "torch.nn.EmbeddingBag" or len(args) < 2:
        return False
    return args[1].constant() is not None and not args[1].data


def _split_again(run: RunState, call: cst.Call, node: cst.BaseExpression, rows: Data) -> Value:
    """This rank's rows of what an expression around the layer's call gives for all."""
    made = across_samples.on_all_rows(run, node, call.args[0].value, rows)
    others = [one.value for one in call.args[1:] if _is_rows(run.seen(one.value))]
    known = run.facts.regrouped.get(node)
    if known is not None and others:
        run.facts.regrouped[node] = replace(known, others=tuple(others))
    return value(made)


def _is_rows(one: Value) -> bool:
    return any(data.placement is Placement.SHARD for data in one.data)


def _is_first(item: cst.Subscript) -> bool:
    part = item.slice[0].slice
    index = part.value if isinstance(part, cst.Index) else None
    return len(item.slice) == 1 and isinstance(index, cst.Integer) and index.value == "0"


def _takes_all_indices(layer: Instance) -> bool:
    """Whether an embedding changes its weights, or their gradients, by all indices of a batch."""
    options = _BY_ALL_INDICES.get(layer.kind, {})
    given = (layer.arguments.get(name) or layer.arguments.get(at) for name, at in options.items())
    return any(one is not None and one.constant() not in (None, False) for one in given)


def _mistakes(layer: Instance, rows: Data) -> bool:
    """Whether a layer takes the dimension of the samples for that of channels, or for a place."""
    wanted = _OF_BATCHES.get(layer.kind)
    known = rows.form in (Form.TENSOR, Form.YIELDED, Form.STATE) and not rows.opaque
    if wanted is None or not known:
        return False
    return rows.dim > 0 or 0 < rows.ndim < wanted


def _goes_along(layer: Instance, rows: Data) -> bool:
    """Whether one of the layers in a row goes along the dimension of the samples."""
    if layer.kind != _SEQUENTIAL:
        return False
    ndim = rows.ndim
    for place in range(len(layer.arguments)):
        held = layer.arguments.get(str(place), UNKNOWN)
        for one in held.of(Instance):
            assert isinstance(one, Instance)
            dim = one.arguments.get("dim") or one.arguments.get("0") or UNKNOWN
            along = dimensions.place(dim.constant(), ndim)
            if one.kind in OF_A_DIMENSION and along == rows.dim:
                return True
            known = isinstance(one.type, str)
            ndim = dimensions.of_layer(one, [value(replace(rows, ndim=ndim))]) if known else 0
    return False
