"""Functions along a dimension of a tensor: over the rows, or within each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ddpify.records import replace
from ddpify.understanding.forms import SEVERAL_TENSORS, Form, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import Data, Tup, Value, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState
QUANTILES = frozenset("quantile nanquantile percentile nanpercentile".split())
OVER_A_DIMENSION = QUANTILES | frozenset(
    "max min amax amin argmax argmin median std var norm prod all any logsumexp softmax"
    " log_softmax cumsum cumprod topk sort argsort mode kthvalue unbind chunk split tensor_split"
    " array_split count_nonzero logcumsumexp cummax cummin msort diff"
    " nanmean nansum mean sum average softmin normalize cosine_similarity argpartition nanmedian"
    " std_mean var_mean aminmax vector_norm"
    " fft ifft rfft irfft hfft ihfft pairwise_distance".split()
)
ROW_WISE_WITHOUT_DIMENSION = frozenset("softmax log_softmax softmin normalize".split())
# Along the first dimension, unless they are told otherwise.
PARTING = frozenset("split chunk tensor_split array_split".split())
ORDERING = frozenset("sort argsort topk".split())  # which give positions
_FOURIER = frozenset("fft ifft rfft irfft hfft ihfft".split())
_OVER_THE_LAST = _FOURIER | frozenset(
    "topk sort argsort diff mode kthvalue argpartition pairwise_distance".split()
)  # unless they are told otherwise
_OVER_THE_FIRST = "msort"  # and never along another
KEEPING_DIMENSIONS = _FOURIER | frozenset(
    "softmax log_softmax softmin cumsum cumprod logcumsumexp cummax cummin msort topk sort argsort"
    " argpartition split chunk tensor_split array_split normalize diff".split()
)
_OF_ALL_SAMPLES = frozenset("median nanmedian std var quantile nanquantile".split())
_SIZE_FIRST = (
    _FOURIER
    | QUANTILES
    | frozenset(  # or another number
        "cosine_similarity vector_norm normalize topk split chunk tensor_split array_split norm"
        " diff kthvalue".split()
    )
)
PAIRS = frozenset(  # values and indices, or two values
    "max min median nanmedian mode topk sort kthvalue std_mean var_mean aminmax cummax"
    " cummin".split()
)
_TOLD_A_CORRECTION = frozenset("std var std_mean var_mean".split())  # behind the dimension
_ONE_OF_ALL = frozenset("max min median nanmedian".split())  # one value, unless told a dimension
SUMMING = frozenset("mean average nanmean sum nansum count_nonzero".split())
_ALONG_ONE = (
    ROW_WISE_WITHOUT_DIMENSION
    | _OVER_THE_LAST
    | PARTING
    | {_OVER_THE_FIRST, "cosine_similarity", "unbind"}
)
# What goes over all elements, unless it is told a dimension.
OVER_ALL = OVER_A_DIMENSION - SUMMING - _ALONG_ONE


_CHANGING_TOTALS = frozenset({"initial", "where"})  # NumPy's: no sum of ranks' parts has them


def told(name: str, rest: Sequence[Value]) -> Sequence[Value]:
    """The arguments that may name a dimension, besides the tensor."""
    if name == "pairwise_distance":  # which has an order and a tolerance
        return ()
    return rest[1:] if name in _SIZE_FIRST else rest


def goes_over_all(name: str, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function that is no sum or mean goes over all elements."""
    given = told(name, rest)
    if name not in OVER_ALL or (given and given[0].data):  # torch.max(a, b): elementwise
        return False
    return () in named_dimensions(given, kwargs)


def gives_a_pair(name: str, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function gives values and indices, or two values."""
    if name not in PAIRS or (rest and rest[0].data):  # torch.max(a, b): elementwise
        return False
    return name not in _ONE_OF_ALL or () not in named_dimensions(rest, kwargs)


def goes_over_rows(
    name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a function of a dimension goes along that of the rows, or along all."""
    given = told(name, rest)
    if given and given[0].data:  # torch.max(a, b): elementwise
        return False
    if given or {"dim", "axis"} & kwargs.keys():
        return mixes_rows(name, data, rest, kwargs) or () in named_dimensions(given, kwargs)
    last = name in ROW_WISE_WITHOUT_DIMENSION or name in _OVER_THE_LAST
    return not (last and data.ndim != 1) and name != "cosine_similarity"


def over_all_rows(dim: int, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function goes along the dimension of the rows, or along all."""
    given = kwargs.get("dim") or kwargs.get("axis") or (rest[0] if rest else None)
    return given is None or given.constant() == dim


def kept_form(data: Data) -> Form:
    """The form of a tensor that was made row by row from this one."""
    if data.ragged:
        return Layout.MASKED
    kept = (
        *SEVERAL_TENSORS,
        Layout.PERMUTATION,
        Layout.STACKED,
        NumberKind.RANGE,
        NumberKind.COMPUTED,
        Layout.INTERLEAVED,
        Layout.MIXED,
        Layout.STATE,
        Layout.STATES,
    )
    return data.form if data.form in kept else Layout.TENSOR


def along(
    run: RunState, name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A function along one dimension, or over all elements where none is named."""
    given, rest = rest, told(name, rest)
    if rest and rest[0].data:  # torch.max(a, b): elementwise
        return _within_rows(name, data, pair=False)
    if name in PARTING and over_all_rows(data.dim, rest, kwargs) and _has_parts(run, data):
        return _within_rows(name, data, pair=False)
    results = []
    for dims in named_dimensions(rest, kwargs):
        unsure = not dims and name in _OVER_THE_LAST and data.one_each and not data.ndim
        if not dims and name == "cosine_similarity":
            dims = (1,)
        if not dims and name in ROW_WISE_WITHOUT_DIMENSION:
            dims = (-1,)
        dims = dims or _by_default(name)
        places = [dimensions.place(dim, data.ndim) for dim in dims]
        unsure = unsure or dimensions.may_be_of_rows(data, dims)
        if unsure and not run.frames_forward():
            results.append(value(data.placed(Placement.COUPLED)))
        elif dims and data.dim not in places:
            kept = name in KEEPING_DIMENSIONS or keeps_dimensions(name, given, kwargs)
            gone = 0 if kept else sum(isinstance(p, int) and 0 <= p < data.dim for p in places)
            several = any(isinstance(dim, dimensions.AtLeast) for dim in dims)  # perhaps
            one_each = not kept and (several or dimensions.may_leave_one_each(data, len(dims)))
            within = replace(data, dim=data.dim - gone, one_each=one_each)
            results.append(_within_rows(name, within, pair=name in PAIRS))
        else:
            whole = len(dims) > 1 and data.ndim in (0, len(dims))  # over all dimensions
            number = not dims or data.one_each or data.ndim == 1 or whole
            plain = kwargs.keys().isdisjoint(_CHANGING_TOTALS)
            made = _along_rows(run, name, data) if plain else data.placed(coupled(run))
            results.append(value(replace(made, one_each=number)))
    return join(*results)


def _has_parts(run: RunState, data: Data) -> bool:
    """Whether what a tensor is parted into may be rows of the whole batch, one under the other."""
    several = (
        data.form in (Layout.STACKED, Layout.INTERLEAVED, Layout.PERMUTATION)
        or data.ragged
        or data.opaque
    )
    return several or run.frames_forward()


def mixes_rows(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function is told to go along the dimension in which the rows lie."""
    given = told(name, rest)
    if name in (*PARTING, "unbind") or (given and given[0].data):
        return False
    named = (dims or _by_default(name) for dims in named_dimensions(given, kwargs))
    return data.dim in [dimensions.place(dim, data.ndim) for dims in named for dim in dims]


def may_mix_rows(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a dimension that is counted from the end may be that of the rows."""
    given = told(name, rest)
    if given and given[0].data:  # torch.max(a, b): elementwise
        return False
    named = (dims or _by_default(name) for dims in named_dimensions(given, kwargs))
    return any(dimensions.may_be_of_rows(data, dims) for dims in named)


def _by_default(name: str) -> tuple[int, ...]:
    """The dimension along which a function goes that is told none; none where that is all."""
    if name == _OVER_THE_FIRST:
        return (0,)
    return (-1,) if name in _OVER_THE_LAST else ()


def is_of_all_samples(
    name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a function gives what no rank's rows alone have, as ``x.std()`` and ``x.std(0)``."""
    given = told(name, rest)
    everything = () in named_dimensions(given, kwargs)
    return name in _OF_ALL_SAMPLES and (everything or mixes_rows(name, data, rest, kwargs))


def keeps_dimensions(name: str, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function leaves a dimension of size one where it has gone along one."""
    given = kwargs.get("keepdim") or kwargs.get("keepdims")
    if given is not None:
        return given.constant() is not False
    if name not in OVER_A_DIMENSION or name in KEEPING_DIMENSIONS:
        return False
    behind = told(name, rest)[1 + (name in _TOLD_A_CORRECTION) :]
    return any(one.constant() is True for one in behind)  # as in x.sum(1, True)


def _within_rows(name: str, data: Data, *, pair: bool) -> Value:
    """What a function of each row's own elements gives; with ``pair``, values and indices."""
    kept = replace(data, definition_sites=data.counting, form=kept_form(data))
    if name in (*PARTING, "unbind"):
        kept = replace(kept, form=Layout.PIECES)
    indices = replace(kept, form=Layout.ORDER) if name in ORDERING else kept
    return value(Tup((value(kept), value(indices)))) if pair else value(indices)


def _along_rows(run: RunState, name: str, data: Data) -> Data:
    """What a function over the batch dimension gives."""
    if name in ("mean", "average", "nanmean"):
        masked = data.ragged
        return data.placed(Placement.WEIGHTED if masked else Placement.MEAN)
    if name in ("sum", "nansum", "count_nonzero"):
        return data.placed(Placement.SUM)
    return data.placed(coupled(run))


def coupled(run: RunState) -> Placement:
    """What mixes rows; a model's forward treats each sample alone, as far as is known."""
    return Placement.SHARD if run.frames_forward() else Placement.COUPLED
