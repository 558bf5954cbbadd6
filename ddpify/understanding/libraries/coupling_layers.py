"""Layers of PyTorch whose result for a sample depends on the others of the batch.

They get the rows of all ranks, and each rank takes its own of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.batching import batch_layers
from ddpify.understanding.forms import Layout
from ddpify.understanding.layer_containers import LISTS_OF_LAYERS, SEQUENTIAL
from ddpify.understanding.libraries import container_layers, layers_apart
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
# These take a batch of so many dimensions, or a single sample with one less.
_OF_BATCHES = {
    f"torch.nn.{name}{places}d": places + 2
    for places in (1, 2, 3)
    for name in (
        "Conv ConvTranspose LazyConv LazyConvTranspose MaxPool AvgPool AdaptiveAvgPool"
        " AdaptiveMaxPool LPPool FractionalMaxPool MaxUnpool InstanceNorm LazyInstanceNorm"
        " BatchNorm LazyBatchNorm ReflectionPad ReplicationPad CircularPad ZeroPad ConstantPad"
    ).split()
} | {
    "torch.nn.Softmax2d": 4, "torch.nn.PixelShuffle": 4, "torch.nn.PixelUnshuffle": 4,
    "torch.nn.Fold": 3, "torch.nn.Unfold": 4, "torch.nn.BatchNorm1d": 2, "torch.nn.GroupNorm": 2,
    "torch.nn.LocalResponseNorm": 2, "torch.nn.ChannelShuffle": 3, "torch.nn.Upsample": 3,
    "torch.nn.LazyBatchNorm1d": 2, "torch.nn.PReLU": 2, "torch.nn.UpsamplingNearest2d": 4,
    "torch.nn.UpsamplingBilinear2d": 4,
}  # fmt: skip
# What these give has the size of what they get.
_KEEPING = tuple(
    "torch.nn.InstanceNorm torch.nn.LazyInstanceNorm torch.nn.BatchNorm torch.nn.LazyBatchNorm"
    " torch.nn.GroupNorm torch.nn.LocalResponseNorm torch.nn.Softmax2d torch.nn.PReLU"
    " torch.nn.LayerNorm torch.nn.RMSNorm".split()
)
# Where these layers are told to give the positions of what they choose as well.
_GIVING_INDICES = {"MaxPool": "4", "AdaptiveMaxPool": "1", "FractionalMaxPool": "3"}
_NORMALISING = ("torch.nn.LayerNorm", "torch.nn.RMSNorm")
_LINEAR = "torch.nn.Linear"


def through(
    run: RunState,
    node: cst.BaseExpression,
    layer: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value | None:
    """What such a layer makes of rows; None for layers that treat each sample alone."""
    rows = [d for one in args[:1] for d in one.data if d.placement is Placement.SHARD]
    if _sums_up_bags(layer, args):
        shown = node.args[0].value if isinstance(node, cst.Call) and node.args else node
        if rows:
            across_samples.of_all_rows(run, shown, rows[0])
        return _bags(args)
    if len(rows) != 1 or not isinstance(node, cst.Call) or not node.args:
        return None
    mistaken = _mistakes(layer, rows[0]) or _works_on(layer, rows[0])
    kept = mistaken and layer.kind.startswith(_KEEPING)
    if layers_apart.normalises(run, node, layer):
        if rows[0] not in run.seen(node.args[0].value).atoms:  # as in map(layer, ..)
            packed = replace(rows[0], definition_sites=frozenset(), form=Layout.PACKED)
            run.demand(node, value(packed), uses.A_VIEW)
        kept = True
    if _takes_all_indices(layer) or _goes_along(layer, rows[0]) or kept:
        return _split_again(run, node, node, rows[0])
    if mistaken:
        return _of_all(run, node, rows[0])
    if not batch_layers.goes_along_rows(layer, args):
        return None
    if not run.module.editable and not run.collating:
        run.facts.rows.along_rows.setdefault(node, run.site(node))
        return None
    above = run.module.parents[node]
    if isinstance(above, cst.Subscript) and _is_first(above):
        made = _split_again(run, node, above, rows[0])
        return value(Tup((made, REPLICATED)))
    made = REPLICATED
    for shown, held in argument_pairs(node, args, kwargs):
        for data in held.data if _is_rows(held) else ():
            made = across_samples.of_all_rows(run, shown, data)
    replicated = replace(
        rows[0].placed(Placement.REPLICATE), form=Layout.GATHERED, ndim=rows[0].ndim
    )
    return value(Tup((value(replicated), made)))


def gives_indices(layer: Instance) -> bool:
    """Whether a pooling layer gives the positions of what it chooses, too."""
    short = layer.kind.rsplit(".", 1)[-1].rstrip("123d")
    place = _GIVING_INDICES.get(short)
    given = layer.arguments.get("return_indices") or layer.arguments.get(place or "")
    return place is not None and given is not None and given.constant() is not False


def _of_all(run: RunState, call: cst.Call, rows: Data) -> Value:
    """What a layer makes of all samples as it would of one."""
    taken = call.args[0].value
    made = across_samples.coupled(run, call, taken, rows)
    named = value(*(replace(one, names=frozenset({taken})) for one in made.data))
    return named if made.data else made


def _sums_up_bags(layer: Instance, args: list[Value]) -> bool:
    """Whether an EmbeddingBag is told by numbers that all ranks share where its bags begin."""
    if layer.kind != "torch.nn.EmbeddingBag" or len(args) < 2:
        return False
    return args[1].constant() is not None and not args[1].data


def _bags(args: list[Value]) -> Value:
    """What is summed up of indices: a row for each sample, where their number tells the bags."""
    if not any(data.form is Layout.GATHERED for data in args[1].of(Data)):
        return REPLICATED
    loaders = frozenset(loader for data in args[0].of(Data) for loader in data.loaders)
    return value(Data(Placement.REPLICATE, loaders, form=Layout.GATHERED))


def _split_again(run: RunState, call: cst.Call, node: cst.BaseExpression, rows: Data) -> Value:
    """This rank's rows of what an expression around the layer's call gives for all."""
    made = across_samples.on_all_rows(run, node, call.args[0].value, rows)
    others = [one.value for one in call.args[1:] if _is_rows(run.seen(one.value))]
    known = run.facts.rows.regrouped.get(node)
    if known is not None and others:
        run.facts.rows.regrouped[node] = replace(known, others=tuple(others))
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
    known = rows.form in (Layout.TENSOR, Layout.YIELDED, Layout.STATE) and not rows.opaque
    if wanted is None or not known:
        return False
    return rows.dim > 0 or 0 < rows.ndim < wanted


def _works_on(layer: Instance, rows: Data) -> bool:
    """Whether the rows lie along one of the last dimensions, on which a layer works."""
    told = layer.arguments.get("normalized_shape") or layer.arguments.get("0") or UNKNOWN
    last = dimensions.length(told) if layer.kind in _NORMALISING else int(layer.kind == _LINEAR)
    known = rows.form in (Layout.TENSOR, Layout.STATE) and rows.ndim and not rows.opaque
    return bool(known) and rows.dim >= rows.ndim - last


def mixing(container: Instance, args: list[Value]) -> list[Instance]:
    """The layers in a list or a dictionary of layers that would mix the samples of what it gets.

    One that takes other dimensions than there are is not what gets them, if others take these.
    """
    listed = container_layers.kind_of(container) in LISTS_OF_LAYERS
    layers = container_layers.in_any_order(container) if listed else []
    rows = [d for one in args[:1] for d in one.data if d.placement is Placement.SHARD]
    if not rows or not layers:
        return []
    fitting = [one for one in layers if rows[0].dim or not _mistakes(one, rows[0])]
    return [one for one in fitting or layers if _mixes(one, rows[0], args)]


def _mixes(layer: Instance, rows: Data, args: list[Value]) -> bool:
    return (
        layer.kind in OF_A_DIMENSION
        or any((_takes_all_indices(layer), _sums_up_bags(layer, args), _goes_along(layer, rows)))
        or any((_mistakes(layer, rows), _works_on(layer, rows)))
        or batch_layers.goes_along_rows(layer, args)
    )


def _goes_along(layer: Instance, rows: Data) -> bool:
    """Whether a layer, or one of several in a row, goes along the dimension of the samples.

    Layers of PyTorch's own by themselves are asked where they are called.
    """
    if container_layers.is_in_order(layer):
        return any(_is_along(*one) for one in _in_turn(layer, rows))
    unknown = replace(rows, ndim=0)
    if container_layers.kind_of(layer) == SEQUENTIAL:
        return any(_is_along(one, unknown) for one in container_layers.in_any_order(layer))
    return not layer.kind and _is_along(layer, unknown)


def _is_along(layer: Instance, rows: Data) -> bool:
    if container_layers.kind_of(layer) not in OF_A_DIMENSION:
        return False
    held = layer.arguments.get("dim") or layer.arguments.get("0") or UNKNOWN
    dim = dimensions.place(held.constant(), rows.ndim)
    return dim in (rows.dim, ...) or dimensions.may_be_of_rows(rows, [dim])


def _in_turn(sequential: Instance, rows: Data) -> Iterator[tuple[Instance, Data]]:
    """The layers of a Sequential in their order, each with what it gets."""
    for layer in container_layers.in_turn(sequential):
        yield layer, rows
        known = isinstance(layer.type, str)
        rows = replace(rows, ndim=dimensions.of_layer(layer, [value(rows)]) if known else 0)
