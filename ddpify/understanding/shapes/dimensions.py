"""How many dimensions tensors have, as far as the code shows: which one ``dim=-3`` names.

0 stands for a number of dimensions that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.forms import NumberKind
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import UNPACKED, code_of
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Const,
    Data,
    Instance,
    Number,
    Params,
    ReplicatedTensor,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What maps each element by itself, or keeps every dimension.
_KEEPING = frozenset(
    "to cpu cuda float double half bfloat16 type type_as long int bool detach clone contiguous"
    " sigmoid relu tanh gelu silu elu leaky_relu softplus hardtanh logsigmoid softmax log_softmax"
    " exp log log2 log1p sqrt rsqrt abs neg pow square clamp clamp_min clamp_max clip sign round"
    " floor dropout normalize masked_fill where nan_to_num requires_grad_ cumsum flip roll sort"
    " argsort logical_not logical_and logical_or Variable numpy astype cumprod data fliplr flipud"
    " logcumsumexp renorm softmin tril triu transpose swapaxes swapdims movedim cummax"
    " cummin instance_norm layer_norm group_norm batch_norm local_response_norm rms_norm msort"
    " moveaxis rollaxis T H mT mH adjoint matrix_transpose linear"
    " lerp dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout interpolate upsample"
    " pad constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
    " avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d lp_pool1d lp_pool2d"
    " adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d"
    " adaptive_max_pool2d adaptive_max_pool3d pixel_shuffle pixel_unshuffle channel_shuffle glu"
    " prelu bilinear grid_sample scaled_dot_product_attention fft2 ifft2"
    " index_select gather take_along_dim narrow index_fill scatter scatter_add masked_scatter diff"
    " bucketize chunk split tensor_split zeros_like ones_like empty_like full_like rand_like"
    " randn_like randint_like fill fill_ zero zero_ uniform_ normal_".split()
)
LAYERS = {
    **dict.fromkeys(("Conv1d", "ConvTranspose1d", "MaxPool1d", "AvgPool1d"), 3),
    **dict.fromkeys(
        "Conv2d ConvTranspose2d BatchNorm2d InstanceNorm2d MaxPool2d AvgPool2d AdaptiveAvgPool2d"
        " AdaptiveMaxPool2d PixelShuffle UpsamplingBilinear2d Dropout2d".split(),
        4,
    ),
    **dict.fromkeys("Conv3d ConvTranspose3d BatchNorm3d MaxPool3d AvgPool3d".split(), 5),
}
# What takes or gives nothing but tensors of so many dimensions.
OF_MATRICES = {
    "t": 2, "mm": 2, "addmm": 2, "bmm": 3, "baddbmm": 3, "mv": 1, "addmv": 1, "addbmm": 2,
    "outer": 2, "ger": 2,
}  # fmt: skip
_LIKE_ANOTHER = ("view_as", "reshape_as", "expand_as")
_COUNTING = (NumberKind.NUMBER, NumberKind.MULTIPLE, NumberKind.ROUNDED, NumberKind.TOTAL)
_KEEPING_LAYERS = frozenset(
    "Linear ReLU LeakyReLU PReLU ELU GELU SiLU Sigmoid Tanh Softmax LogSoftmax Dropout BatchNorm1d"
    " LayerNorm GroupNorm Identity Upsample UpsamplingNearest2d ZeroPad1d ZeroPad2d ReflectionPad1d"
    " ReflectionPad2d ReplicationPad1d ReplicationPad2d LocalResponseNorm RMSNorm ReLU6 Hardtanh"
    " Hardswish Hardsigmoid Mish CELU SELU GLU Softplus Softsign Softmin LogSigmoid Threshold"
    " AlphaDropout Dropout1d Dropout3d".split()
)


def after(name: str, ndim: int, rest: Sequence[Value]) -> int:
    """How many dimensions a tensor function leaves, by its name and further arguments."""
    if name == "T" and not ndim:
        return 2
    if keeps(name) or (rule_of(name) is Rule.ELEMENTWISE and all(map(_is_plain, rest))):
        return ndim
    if name in OF_MATRICES:
        return OF_MATRICES[name]
    if name in ("permute", "view", "reshape", "repeat", "expand", "broadcast_to"):
        return _sizes(rest)
    if name in _LIKE_ANOTHER:
        return (of_value(rest[0]) if rest else None) or 0
    if name == "tile" and ndim and _sizes(rest):
        return max(ndim, _sizes(rest))
    if name == "flatten" and not ndim:
        return _of_flattened(rest)
    if not ndim:
        return 0
    if name in ("unsqueeze", "one_hot", "embedding") or (name == "unfold" and len(rest) == 3):
        return ndim + 1
    if name == "squeeze" and ndim == 1:
        return 1
    if name == "squeeze" and rest:  # of a matrix, rows of one number each, or all that it was
        return ndim - 1 if ndim > 2 else 0
    if name == "flatten":
        return _flattened(ndim, rest)
    if name == "unflatten" and len(rest) == 2:
        return ndim - 1 + length(rest[1]) if length(rest[1]) else 0
    return 0


def keeps(name: str) -> bool:
    """Whether a function surely keeps every dimension."""
    return name in _KEEPING or rule_of(name) is Rule.MIXING


def _is_plain(given: Value) -> bool:
    """Whether an argument is a literal, and no tensor with more dimensions."""
    return given.constant() is not ...


def length(sizes: Value) -> int:
    """How many numbers a shape or a tuple has; 1 for a number, 0 where it is not known."""
    found = {_length(atom) for atom in sizes.atoms}
    return found.pop() if len(found) == 1 else 0


def _length(sizes: Atom) -> int:
    if isinstance(sizes, Tup):
        return len(sizes.items)
    if isinstance(sizes, Data):
        single = sizes.placement is Placement.COUNT
        return sizes.ndim if sizes.form is NumberKind.SHAPE else int(single)
    if isinstance(sizes, Instance):
        return len(sizes.attributes) if sizes.type == "list" else 0
    return int(isinstance(sizes, Const) and isinstance(sizes.value, int))


def sizes_of(rest: Sequence[Value]) -> Sequence[Value]:
    """The sizes one by one, also of ``x.view((a, b))`` and ``x.view([a, b])``."""
    shapes = rest[0].atoms if len(rest) == 1 else ()
    if len(shapes) != 1:
        return rest
    if isinstance(shapes[0], Tup):
        return shapes[0].items
    return _listed(shapes[0]) or rest if isinstance(shapes[0], Instance) else rest


def _listed(sizes: Instance) -> list[Value]:
    """The items of a list that has each at its place; none of one put together otherwise."""
    places = [f"[{place}]" for place in range(len(sizes.attributes))]
    known = sizes.type == "list" and set(places) == set(sizes.attributes)
    return [sizes.attributes[place] for place in places] if known else []


def without_zeros(sizes: Value) -> int:
    """How many numbers tell where something is added: pairs of zeros at their end do not."""
    told, given = length(sizes), sizes_of((sizes,))
    while 0 < told <= len(given) and given[told - 1].constant() == 0:
        told -= 1
    return told


def of_layer(layer: Instance, given: Sequence[Value]) -> int:
    """How many dimensions the result of one of PyTorch's layers has; 0 where it is not known."""
    return _through(layer, max((d.ndim for d in given[0].data), default=0) if given else 0)


def _through(layer: Instance, ndim: int) -> int:
    """What a layer leaves of so many dimensions."""
    if not isinstance(layer.type, str):
        return 0
    short = layer.type.rsplit(".", 1)[-1]
    if short == "Sequential":
        for place_ in range(len(layer.arguments)):
            held = list(layer.arguments.get(str(place_), UNKNOWN).of(Instance))
            ndim = _through(held[0], ndim) if len(held) == 1 else 0
        return ndim
    if short in _KEEPING_LAYERS:
        return ndim
    if short == "Embedding":
        return ndim + 1 if ndim else 0
    if short == "Flatten":
        bounds = [layer.arguments[at] for at in ("0", "1") if at in layer.arguments]
        return _flattened(ndim, bounds or [value(Const(1))]) if ndim else 0
    return LAYERS.get(short, 0)


def known(held: Value, ndim: int) -> Value:
    """A value whose tensors are known to have so many dimensions, where they were not."""
    atoms = (
        replace(atom, ndim=ndim) if isinstance(atom, Data) and not atom.ndim else atom
        for atom in held.atoms
    )
    return value(*atoms)


@record
class AtLeast:
    """A dimension, or several, of which no more is known than that it is none before ``least``."""

    least: int = 0


def place(dim: object, ndim: int) -> object:
    """A dimension counted from the front; as it is where that is not known."""
    if isinstance(dim, int) and not isinstance(dim, bool) and dim < 0 and ndim:
        return dim + ndim
    return dim


def may_be_of_rows(data: Data, dims: Iterable[object]) -> bool:
    """Whether one of these may be the rows': a number that is not known, or counted from the end.

    The last one is only where there may be a single number for each sample.
    """
    last = -1 if data.one_each else -2
    return any(
        dim.least <= data.dim if isinstance(dim, AtLeast) else not data.ndim and dim <= last
        for dim in dims
        if isinstance(dim, (int, AtLeast))
    )


def may_leave_one_each(data: Data, dropped: int) -> bool:
    """Whether rows that lose so many dimensions may be a single number for each sample."""
    return dropped > 0 and data.ndim in (0, dropped + 1)


def of_pair(left: Data | None, right: Data | None, others: Sequence[int | None]) -> int:
    """How many dimensions broadcasting leaves; 0 where that is not known, or a number.

    ``others`` are the dimensions of the operands that are no data, None where these are not known.
    """
    held = [_of_atom(one) for one in (left, right) if one is not None]
    known = [ndim for ndim in (*held, *others) if ndim is not None]
    return max(known, default=0) if len(known) == len(held) + len(others) else 0


def of_values(*operands: Value) -> int | None:
    """How many dimensions broadcasting leaves of what all ranks hold; None where not known."""
    found = [of_value(one) for one in operands]
    known = [ndim for ndim in found if ndim is not None]
    return max(known) if known and len(known) == len(found) else None


def of_value(held: Value) -> int | None:
    """How many dimensions a value has at most, 0 for a number; None where that is not known."""
    found = [_of_atom(atom) for atom in held.atoms if not isinstance(atom, ReplicatedTensor)]
    known = [ndim for ndim in found if ndim is not None]
    return max(known) if known and len(known) == len(found) else None


def of_product(left: Data | None, right: Data | None, others: Sequence[int]) -> int:
    """How many dimensions ``left @ right`` has; 0 where that is not known, or a number.

    ``others`` are the dimensions of factors that are no data.
    """
    known = [one.ndim for one in (left, right) if one is not None] + [*others]
    if len(known) < 2 or not all(known):
        return 0
    return max(known) if min(known) > 1 else max(known) - 1


def _of_atom(atom: Atom) -> int | None:
    """The dimensions of one of the things that a value may be; None where they are not known."""
    if isinstance(atom, Number):
        return atom.ndim if atom.setting is None else 0
    if isinstance(atom, Data):
        return atom.ndim or (0 if _is_number(atom) else None)
    if isinstance(atom, Params):
        return atom.ndim or None
    return 0 if isinstance(atom, Const) and not isinstance(atom.value, str) else None


def _is_number(data: Data) -> bool:
    """Whether this counts rows, or is a reduction of all elements to one number."""
    counts = data.form in _COUNTING and data.placement is not Placement.SHARD
    return counts or (data.one_each and (data.placement.partial or data.reduced))


def _sizes(rest: Sequence[Value]) -> int:
    if len(rest) != 1:
        return len(rest)
    return length(rest[0])


def _of_flattened(rest: Sequence[Value]) -> int:
    """What ``x.flatten(1)`` leaves, however many dimensions there are; 0 for others."""
    bounds = [one.constant() for one in rest]
    to_the_end = len(bounds) == 1 or bounds[1:] == [-1]
    first = bounds[0] if bounds and to_the_end else -1
    return first + 1 if isinstance(first, int) and first >= 0 else 0


def _flattened(ndim: int, rest: Sequence[Value]) -> int:
    bounds = [one.constant() for one in rest]
    if not all(isinstance(bound, int) for bound in bounds):
        return 0
    first, last = [*bounds, *(0, -1)[len(bounds) :]][:2]
    assert isinstance(first, int) and isinstance(last, int)
    return ndim - (last % ndim - first % ndim)


def unpacked(run: RunState, shown: cst.BaseExpression) -> int:
    """How many sizes ``b, heads, steps, d = x.shape`` takes of a name in this function; else 0."""
    structure = run.module.structure
    around = structure.function(shown) or structure.tree
    code = code_of(shown)
    for one in structure.inside(around, cst.Assign):
        target, given = one.targets[0].target, one.value
        if isinstance(given, cst.Call) and not given.args:  # x.size()
            given = given.func
        if not isinstance(given, cst.Attribute) or not isinstance(target, UNPACKED):
            continue
        if given.attr.value in ("shape", "size") and code_of(given.value) == code:
            plain = all(isinstance(element, cst.Element) for element in target.elements)
            return len(target.elements) if plain else 0
    return 0


def asked_for(run: RunState, shown: cst.BaseExpression) -> int:
    """How many dimensions a name has at least: ``x.size(2)`` is asked for in its function."""
    structure = run.module.structure
    around = structure.function(shown) or structure.tree
    code = code_of(shown)
    asked = [_size_of(one, code) for one in structure.inside(around, cst.Call)]
    asked += [_size_of(one, code) for one in structure.inside(around, cst.Subscript)]
    return max(asked, default=0)


def sliced(shown: cst.BaseExpression) -> int:
    """How many dimensions are left at least of ``x[:, :, ::2, ::2]``: one for each slice."""
    parts = shown.slice if isinstance(shown, cst.Subscript) else ()
    return sum(isinstance(part.slice, cst.Slice) for part in parts)


def _size_of(node: cst.Call | cst.Subscript, code: str) -> int:
    """Which size of a tensor this is, counted from 1; 0 where it is none."""
    if isinstance(node, cst.Call):
        sizes, given = node.func, [one.value for one in node.args]
    else:
        sizes = node.value.func if isinstance(node.value, cst.Call) else node.value
        first = node.slice[0].slice
        given = [first.value] if isinstance(first, cst.Index) else []
    at = given[0] if len(given) == 1 else None
    if not isinstance(sizes, cst.Attribute) or sizes.attr.value not in ("size", "shape"):
        return 0
    if not isinstance(at, cst.Integer) or code_of(sizes.value) != code:
        return 0
    return int(at.value) + 1


def named_dimensions(
    rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> list[tuple[object, ...]]:
    """The dimensions that ``dim`` may name; an empty tuple stands for all of them."""
    given = kwargs.get("dim") or kwargs.get("axis")
    if given is None and rest:
        given = rest[0]
    if given is None:
        return [()]
    found: list[tuple[object, ...]] = []
    for atom in given.atoms:
        items: Sequence[Value] = (value(atom),)
        if isinstance(atom, Tup):
            items = atom.items
        elif isinstance(atom, Instance) and atom.type == "list":
            items = list(atom.attributes.values())
        elif isinstance(atom, Const) and isinstance(atom.value, (bool, type(None))):
            items = ()  # as in torch.std(x, True), which is told no dimension
        found.append(tuple(map(_dimension, items)))
    return found or [(...,)]


def _dimension(item: Value) -> object:
    """The dimension that a number is, as far as that is known."""
    constant = item.constant()
    numbers = list(item.of(Number))
    if constant is not ... or not numbers:
        return constant
    return AtLeast(min(number.least or 0 for number in numbers))
