"""From this rank's samples to the global batch: means, sums, rows and counts.

Gradients follow DistributedDataParallel, which averages them over the W ranks: what depends on
a rank's own samples carries W times its share of the gradient, what is the same on all ranks
carries all of it.
"""

import numbers
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributions import Distribution

from ddpify.runtime.distributions import of_all_rows
from ddpify.runtime.pending import defer, send, weighted_part
from ddpify.runtime.process import kept, world, world_size
from ddpify.runtime.share import Share, bounds, current_share, in_forward


class SumOverRanks(torch.autograd.Function):
    """``sum_r before_r * x_r``; its gradient is ``after * g``, or for None ``before * sum_r g_r``.

    The first backward needs every rank's g to be the same (the value was used alike on all
    ranks) and no communication; the second holds however the value was used. A factor of 0
    gives exact zeros whatever x or g is, NaN included.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, before: float, after: float | None) -> torch.Tensor:
        """x: any shape, the same on all ranks; floating point."""
        ctx.before, ctx.after = before, after
        return sum_scaled(x, before)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor, None, None]:
        """The gradient of x (differentiable again)."""
        grad, factor = grads[0], ctx.after
        if factor is None:
            grad, factor = over_ranks(grad, 1.0, None), ctx.before
        return (grad * factor if factor else torch.zeros_like(grad)), None, None


class GatherRows(torch.autograd.Function):
    """Every rank's rows (dimension 1 of x) in order of rank; a ghost's row is left out."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, total: int, each: int) -> torch.Tensor:
        """x: (blocks, rows, ...), ``each`` rows for a sample of the global batch's ``total``.

        Returns (blocks, total * each, ...).
        """
        first, last = bounds(total, world().rank, world_size())
        ctx.first, ctx.count = first * each, (last - first) * each
        ctx.rows = x.shape[1]
        return _all_rows(x, total, each)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor, None, None]:
        """This rank's rows of the ranks' summed gradients."""
        grad = over_ranks(grads[0], 1.0, None)
        own = grad.narrow(1, ctx.first, ctx.count)
        if not ctx.count:
            own = grad.new_zeros(grad.shape[0], ctx.rows, *grad.shape[2:])
        return own, None, None


class GlobalGradient(torch.autograd.Function):
    """The same tensor; its gradient is the mean of the ranks': that of one process."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """x: any shape, the same on all ranks."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> torch.Tensor:
        """The gradient of x (differentiable again)."""
        return over_ranks(grads[0], 1 / world_size(), None)


def over_ranks_backward(x: torch.Tensor) -> torch.Tensor:
    """GlobalGradient of x, typed."""
    out: torch.Tensor = GlobalGradient.apply(x)  # type: ignore[no-untyped-call]
    return out


def over_ranks(x: torch.Tensor, before: float, after: float | None) -> torch.Tensor:
    """SumOverRanks of x, typed."""
    out: torch.Tensor = SumOverRanks.apply(x, before, after)  # type: ignore[no-untyped-call]
    return out


def sum_scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """``sum_r factor_r * x_r`` in x's dtype, added up in float32 where that is narrower."""
    part = weighted_part(x, factor)
    dist.all_reduce(part)
    return part.to(x.dtype)


def shared_as(of: object) -> Share | None:
    """How the latest batch of a loader is shared; with None, the current batch.

    of: a loader that ``shard`` or ``replicate`` gave, for a line that uses several batches.
    Raises TypeError for another object.
    """
    if of is None or world_size() == 1:
        return current_share()
    if not hasattr(of, "ddpify_latest"):
        raise TypeError(f"a {type(of).__name__} is no loader that shard() or replicate() gave")
    return of.ddpify_latest.share if of.ddpify_latest is not None else None


def mean(
    x: Any, *, weight: Any = None, on_rows: bool = False, of: object = None, lazy: bool = False
) -> Any:
    """From a mean over this rank's samples to the mean over the global batch.

    x: a floating-point tensor or array of any shape, the same on all ranks, or a number. Returns
    the same kind; the same object where the current batch is not shared. A collective.
    Differentiable: ``mean(loss).backward()`` on every rank leaves the gradient of one process
    on the whole batch.

    ``weight``: what this rank's x was divided by, where that is not its number of samples (the
    targets that count, the sum of their class weights); a number or a scalar tensor. It costs
    a second small collective. ``on_rows``: each rank goes on to use the scalar on its own rows, as
    in ``x - mean(x.mean(), on_rows=True)``, so that backward must add up what the ranks hand back
    (a collective); for tensors of any other shape, and in a model's forward, it always does.
    ``of``: the loader whose latest batch is used, where that is not the current batch.
    ``lazy``: of a loss, a scalar with a gradient: its backward takes the weight alone, and whatever
    else is done with it first is the collective. All ranks must come to that, or none.
    """
    share = shared_as(of)
    if share is None:
        return x
    if _is_complex(x):
        return _by_parts(lambda parts: mean(parts, weight=weight, on_rows=on_rows, of=of), x)
    if weight is not None:
        return _weighted_mean(x, weight, share, on_rows)
    factor = share.local / share.total
    if isinstance(x, torch.Tensor):
        x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
        return _reduced(x, factor, on_rows, lazy)
    if _is_numpy_array(x):
        return mean(torch.from_numpy(x), of=of).numpy()
    return _as_number(x, _reduced(torch.tensor(float(x), dtype=torch.float64), factor).item())


def sum(x: Any, *, on_rows: bool = False, of: object = None, lazy: bool = False) -> Any:
    """From a sum over this rank's samples to the sum over the global batch.

    x: a tensor or array of any shape, the same on all ranks, or a number; integers stay integers.
    Returns the same kind; the same object where the current batch is not shared, and None for None.
    A collective, and differentiable like mean(). ``on_rows``, ``of`` and ``lazy`` as there.
    """
    share = shared_as(of)
    if share is None or x is None:
        return x
    factor = 0 if share.ghost else 1
    if _is_complex(x):
        return _by_parts(lambda parts: _summed(parts, factor, on_rows), x)
    if isinstance(x, torch.Tensor):
        return _summed(x, factor, on_rows, lazy)
    if _is_numpy_array(x):
        return _summed(torch.from_numpy(x), factor).numpy()
    whole = isinstance(x, numbers.Integral)
    part = torch.tensor(
        int(x) if whole else float(x), dtype=torch.int64 if whole else torch.float64
    )
    return _as_number(x, sum_scaled(part, factor).item())


def _summed(
    x: torch.Tensor, factor: int, on_rows: bool = False, lazy: bool = False
) -> torch.Tensor:
    if x.is_floating_point():
        return _reduced(x, float(factor), on_rows, lazy)
    return sum_scaled(x.long() if x.dtype == torch.bool else x, factor)


def gather(x: Any, *, stacked: bool = False, dim: int = 0, of: object = None) -> Any:
    """The global batch's rows, in order, from each rank's rows.

    x: a tensor or array with a row (or a fixed number of rows) per sample, a tuple, list or
    dict of such tensors, a list of Python objects with a fixed number per sample, a tuple with a
    dictionary for each sample, or a distribution of torch.distributions with such tensors as its
    parameters.
    ``stacked``: the rows are those of several tensors under each other, each with a row per
    sample, as of ``torch.cat([view1, view2])``. ``dim``: along which dimension of a tensor,
    array or nested list the rows lie. ``of`` as for mean().
    Returns the same kind, whole, on every rank; the same object where the current batch is not
    shared. A collective; tensors are differentiable.

    Raises RuntimeError where the rows are not a multiple of this rank's samples.
    """
    share = shared_as(of)
    if share is None:
        return x
    return _gathered_along(x, share, stacked, dim)


def global_batch_size(x: Any, *, of: object = None) -> int:
    """How many rows x has over all ranks, without communication.

    x: a tensor, array or list with a fixed number of rows per sample, or a count of such rows.
    ``of`` as for mean(). Raises RuntimeError where the rows are not a multiple of this rank's
    samples.
    """
    share = shared_as(of)
    rows = int(x) if isinstance(x, numbers.Integral) else len(x)
    return rows if share is None else _per_sample(rows, share) * share.total


def global_shape(x: Any, *, dim: int = 0, of: object = None) -> tuple[int, ...]:
    """The shape that x has over all ranks, with their rows along ``dim``, without communication.

    x: a tensor or array with a fixed number of rows per sample, or the shape of one. Returns a
    torch.Size, or a tuple for an array. ``of`` as for mean().
    Raises RuntimeError where the rows are not a multiple of this rank's samples.
    """
    known = getattr(x, "shape", x)
    shape = list(known)
    if len(shape) > dim:
        shape[dim] = global_batch_size(shape[dim], of=of)
    return torch.Size(shape) if isinstance(known, torch.Size) else tuple(shape)


def global_like(x: torch.Tensor, *, dim: int = 0) -> torch.Tensor:
    """A tensor of the kind and memory format of x, as large as x is over all ranks.

    x: any shape, with a fixed number of rows per sample along ``dim``. Returns an uninitialised
    tensor without a gradient, for functions that fill it or take its kind and shape; x itself
    where the current batch is not shared. No communication.

    Raises RuntimeError where the rows are not a multiple of this rank's samples.
    """
    if current_share() is None:
        return x
    shape = global_shape(x, dim=dim)
    outer_first = sorted(range(x.dim()), key=x.stride, reverse=True)
    made = x.new_empty([shape[d] for d in outer_first])
    return made.permute([outer_first.index(d) for d in range(x.dim())])


def split(
    x: Any, *, dim: int = 0, rows: Any = None, stacked: bool = False, backward: str = "local"
) -> Any:
    """This rank's rows of something that every rank holds for the whole global batch.

    x: a tensor or array whose dimension ``dim`` is the global batch's (or a multiple of it). With
    ``rows`` or another ``dim`` than 0 it may also be a tuple of those, or None.
    rows: how many this rank has (a number or None), where ``x`` may hold these alone already: then
    it stays as it is. ``"own"``: as many as it has of the current batch.
    stacked: the rows of ``x`` are those of several tensors under each other, each of the global
    batch, as ``gather(x, stacked=True)`` gives them; so are the rows of the result.
    Returns a view of the rows, or a tensor in one piece where ``dim`` is not 0; the same object
    where the current batch is not shared; for a rank without a sample as many rows as its ghost
    has. No communication.

    Raises RuntimeError where the rows are not a multiple of the global batch's.
    """
    share = current_share()
    if share is None or x is None:
        return x
    if backward == "global":
        x = over_ranks_backward(x)
    if isinstance(x, tuple) and (dim or rows is not None):
        return tuple(split(part, dim=dim, rows=rows) for part in x)
    held = x.shape[dim] if dim else len(x)
    if held == (share.rows if rows == "own" else rows):
        return x
    each, rest = divmod(held, share.total)
    if rest:
        raise RuntimeError(f"{held} rows are not a multiple of the batch of {share.total}")
    first, last = bounds(share.total, world().rank, world_size())
    first, last = (0, share.rows) if share.ghost else (first, last)
    if stacked:
        own_rows = [
            block * share.total + row for block in range(each) for row in range(first, last)
        ]
        return x[own_rows]
    own = slice(first * each, last * each)
    if not dim:
        return x[own]
    part = x[(slice(None),) * dim + (own,)]
    return part.contiguous() if isinstance(part, torch.Tensor) else part


def _reduced(
    x: torch.Tensor, factor: float, on_rows: bool = False, lazy: bool = False
) -> torch.Tensor:
    # A scalar made outside of the model is a loss: all ranks use it alike, so backward needs no
    # communication. Anything else may be a statistic that each rank goes on to use on its own rows.
    statistic = on_rows or x.dim() > 0 or in_forward()
    if not (x.requires_grad and torch.is_grad_enabled()):
        return sum_scaled(x, factor)
    if lazy and not statistic:
        return defer(x, factor)
    if statistic or not factor:
        return over_ranks(x, factor, None if statistic else 0.0)
    # As over_ranks(x, factor, factor * world_size()), by torch's own multiplication: a backward in
    # Python takes longer than all else here.
    return send(x * (factor * world_size()), weighted_part(x, factor))


def _weighted_mean(x: Any, weight: Any, share: Share, on_rows: bool) -> Any:
    """The mean over the ranks of x, each with its own weight; one of weight 0 counts for none."""
    tensor = x if isinstance(x, torch.Tensor) else torch.tensor(float(x), dtype=torch.float64)
    own = torch.as_tensor(weight, dtype=tensor.dtype, device=tensor.device).detach().reshape(())
    own = torch.zeros_like(own) if share.ghost else own
    total = sum_scaled(own, 1.0)
    part = torch.where(own == 0, torch.zeros_like(tensor), tensor) * (own / total)
    out = _reduced(part, 1.0, on_rows)
    return out if isinstance(x, torch.Tensor) else _as_number(x, out.item())


def _is_complex(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return x.is_complex()
    kind = getattr(getattr(x, "dtype", None), "kind", "")  # of NumPy's arrays and numbers
    return kind == "c" or isinstance(x, complex)


def _by_parts(reduce: Callable[[torch.Tensor], torch.Tensor], x: Any) -> Any:
    """A complex x, of which the real and the imaginary parts are reduced."""
    if isinstance(x, torch.Tensor):
        return torch.view_as_complex(reduce(torch.view_as_real(x.resolve_conj())).contiguous())
    if _is_numpy_array(x):
        return _by_parts(reduce, torch.from_numpy(x)).numpy()
    return type(x)(_by_parts(reduce, torch.tensor(complex(x), dtype=torch.complex128)).item())


def _is_numpy_array(x: Any) -> bool:
    return "numpy" in sys.modules and isinstance(x, sys.modules["numpy"].ndarray)


def _as_number(like: Any, value: Any) -> Any:
    """``value`` as the type of ``like``; a mean of integers is a float, a sum of bools an int."""
    if isinstance(like, bool) or (isinstance(value, float) and isinstance(like, numbers.Integral)):
        return value
    return type(like)(value)


def _gathered_along(x: Any, share: Share, stacked: bool, dim: int) -> Any:
    if dim == 0:
        return _gathered(x, share, stacked)
    if isinstance(x, torch.Tensor):
        rows = _gathered(x.transpose(0, dim), share, stacked).transpose(0, dim)
        return rows.contiguous() if x.is_contiguous() else rows
    if _is_numpy_array(x):
        return _gathered_along(torch.from_numpy(x), share, stacked, dim).numpy()
    if isinstance(x, list):
        return [_gathered_along(part, share, stacked, dim - 1) for part in x]
    raise TypeError(f"cannot gather a {type(x).__name__} along dimension {dim}")


def _gathered(x: Any, share: Share, stacked: bool) -> Any:
    if isinstance(x, numbers.Number) or getattr(x, "ndim", 1) == 0:
        return _of_all(x)  # where a function gives rows in one call, a number in another
    if isinstance(x, torch.Tensor):
        return _gather_tensor(x, share, stacked)
    if isinstance(x, Distribution):
        return of_all_rows(x, share.total, lambda rows: _gather_tensor(rows, share, stacked))
    if isinstance(x, dict):
        return {key: _gathered(value, share, stacked) for key, value in x.items()}
    if isinstance(x, tuple):
        if x and all(isinstance(value, dict) for value in x) and _are_samples(x, share):
            return tuple(_gather_objects(list(x), share, stacked))
        parts = [_gathered(value, share, stacked) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if isinstance(x, list):
        if x and all(isinstance(value, torch.Tensor) and value.dim() for value in x):
            return [_gather_tensor(value, share, stacked) for value in x]
        return _gather_objects(x, share, stacked)
    if _is_numpy_array(x):
        return _gather_tensor(torch.from_numpy(x), share, stacked).numpy()
    raise TypeError(f"cannot gather a {type(x).__name__}: not tensors, arrays or a list")


def _are_samples(x: tuple[dict[Any, Any], ...], share: Share) -> bool:
    """Whether these are one for each sample, as of ``tuple(zip(*samples))``, and no parts of rows.

    The ranks agree on it: parts of rows have as many for a sample on all of them.
    """
    held = [value for one in x for value in one.values() if getattr(value, "ndim", 0)]
    lengths = [(len(value) // share.rows, len(value) % share.rows) for value in held]
    told: list[Any] = [None] * world_size()
    dist.all_gather_object(told, (len(x) == share.rows, lengths))
    each = all(samples for samples, _ in told)
    parts = all(one == lengths and not any(rest for _, rest in one) for _, one in told)
    if each and parts:
        raise TypeError(
            f"cannot gather a tuple of {len(x)} dictionaries: each may be a sample, or hold rows of"
            " all samples; make it a list where each is a sample"
        )
    return each


def _of_all(x: Any) -> Any:
    """A number that all ranks hold alike."""
    held = exchanged(torch.as_tensor([complex(x)], dtype=torch.complex128))
    if not torch.allclose(held, held[:1], rtol=0, atol=0, equal_nan=True):
        raise TypeError(f"cannot gather a {type(x).__name__} that is another on each rank")
    return x


def _per_sample(rows: int, share: Share) -> int:
    if rows % share.rows:
        raise RuntimeError(
            f"{rows} rows are not a multiple of the {share.rows} sample(s) that this rank has of "
            f"the batch of {share.total}: they do not belong to the current batch, or samples have "
            "different numbers of rows"
        )
    return rows // share.rows


def _gather_tensor(x: torch.Tensor, share: Share, stacked: bool) -> torch.Tensor:
    rows = _per_sample(len(x), share)
    blocks, each = (rows, 1) if stacked else (1, rows)
    parted = x.reshape(blocks, each * share.rows, *x.shape[1:])
    out: torch.Tensor = GatherRows.apply(parted, share.total, each)  # type: ignore[no-untyped-call]
    return out.flatten(0, 1)


def _all_rows(x: torch.Tensor, total: int, each: int) -> torch.Tensor:
    """x: (blocks, rows, ...), padded to one size, exchanged, and joined."""
    size = world_size()
    base, longer = divmod(total, size)  # the first ranks have one sample more
    most = (base + (longer > 0)) * each
    padded = x.new_zeros(x.shape[0], most, *x.shape[2:])
    padded[:, : x.shape[1]] = x.detach()[:, :most]
    rows = exchanged(padded).transpose(0, 1)
    parts = [rows[:, :longer], rows[:, longer:, : base * each]]
    return torch.cat([part.flatten(1, 2) for part in parts], dim=1)


def exchanged(x: torch.Tensor) -> torch.Tensor:
    """Every rank's x, of one shape on all of them, in a new first dimension; any dtype."""
    data = kept(x.view(-1).view(torch.uint8))
    received = kept(data.new_empty(world_size() * len(data)))
    # Its name since torch 2.13, where the former one warns.
    gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather_single(received, data)
    return received.view(x.dtype).view(world_size(), *x.shape)


def _gather_objects(x: list[Any], share: Share, stacked: bool) -> list[Any]:
    each = _per_sample(len(x), share)
    received: list[list[Any]] = [[] for _ in range(world_size())]
    dist.all_gather_object(received, [] if share.ghost else x)
    blocks = each if stacked else 1
    ends = [len(part) // blocks for part in received]
    return [
        item
        for block in range(blocks)
        for part, end in zip(received, ends, strict=True)
        for item in part[block * end : (block + 1) * end]
    ]
