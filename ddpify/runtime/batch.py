"""Batches that the script makes by hand: every rank makes the whole one and keeps its own rows."""

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, cast

import torch

from ddpify.runtime.process import world, world_size
from ddpify.runtime.share import bounds, current_share, loops, share_of

# Along which dimension the rows of a batch lie: for all of it, or for each of its parts.
OWN = "own"  # for a part that a rank makes of its own samples, with any number of rows for each
Dimensions = int | None | Sequence[Any] | Mapping[str, Any]
_SCALARS = (int, float, complex, str, bytes, type(None))


def shard_batch(*batches: Any, dim: int = 0, beside: bool = False) -> Any:
    """This rank's rows of a global batch that every rank has made, with the same draws.

    batches: tensors, arrays, lists of samples, or tuples, lists and dicts of tensors, all with one
    row a sample along ``dim``; anything else in them stays. It becomes the current batch, whose
    sizes ``mean``, ``sum``, ``gather`` and ``global_batch_size`` use, until the next one.
    Returns the rows, as views where they are in one piece: one object for one argument, else a
    tuple. A rank that a batch of fewer than N rows leaves without any gets its first row, as a
    ghost. No communication.

    Raises ValueError where there are no rows to split and, with ``beside``, where there are not as
    many as in the batch before, with which this enters a model.
    """
    if world_size() > 1:
        total = number_of_samples(batches, dim)
        if total is None:
            raise ValueError("shard_batch: nothing here has rows: no tensor, array or list")
        before = current_share()
        if beside and before is not None and before.total != total:
            raise ValueError(
                f"{total} rows enter a model beside a batch of {before.total}: let the model itself"
                " make what has no row for each sample, such as a mask"
            )
        share = share_of(total, world().rank, world_size())
        loops().made(share)
        if share is not None:
            first, last = bounds(total, world().rank, world_size())
            first, last = (0, 1) if share.ghost else (first, last)
            batches = tuple(_part(batch, dim, total, first, last) for batch in batches)
    return batches[0] if len(batches) == 1 else batches


def rows_of(batch: Any, dim: Dimensions, total: int, first: int, last: int) -> Any:
    """Rows ``first`` to ``last`` of a batch of ``total`` that a collate function has put together.

    batch: tensors and arrays with their rows along ``dim``, lists with an item a row, and tuples,
    lists, dicts and objects of those; numbers and texts in it stay. ``dim``: one for all, or one
    for each element of a tuple or list, or for each key of a dict or attribute of an object. None
    is for a part without rows, which stays; so does one for which it is ``OWN``.
    Raises ValueError for a tensor or array without ``total`` rows there, TypeError for an object
    whose attributes ``dim`` does not name.
    """
    if dim is None or dim == OWN or isinstance(batch, _SCALARS):
        return batch
    if _is_array(batch):
        place = dim if isinstance(dim, int) else cast(Sequence[int], dim)[0]
        return _rows_of_array(batch, place, total, first, last)
    listed = isinstance(batch, (tuple, list)) and len(batch) == total and isinstance(dim, int)
    if listed and not any(_is_array(item) and item.ndim for item in batch):
        return batch[first:last]
    return _mapped(batch, dim, lambda part, place: rows_of(part, place, total, first, last))


def check_that_all_has_rows(batch: Any, total: int) -> None:
    """Raise ValueError for a number in a batch, or a tensor or array that holds but one.

    It has no rows, and a script that takes it for a rank's part of the batch would add up N of it.
    """
    if isinstance(batch, (int, float, complex)) or (_is_array(batch) and not batch.ndim):
        raise ValueError(
            f"a batch has a number in it, {batch!r}, and not a row for each sample: compute it from"
            " the batch, after the loader"
        )
    is_leaf = isinstance(batch, _SCALARS) or _is_array(batch)
    if not is_leaf and not (isinstance(batch, (tuple, list)) and len(batch) == total):
        _mapped(batch, 0, lambda part, _: check_that_all_has_rows(part, total))


def has_own(dim: Dimensions) -> bool:
    """Whether a part of the batches has any number of rows for a sample."""
    if isinstance(dim, Mapping):
        return OWN in dim.values()
    return isinstance(dim, Sequence) and OWN in dim


def with_own(rows: Any, own: Any, dim: Dimensions) -> Any:
    """A rank's rows of a batch, with the parts ``OWN`` of what it has made of its samples alone."""
    if isinstance(dim, Mapping):
        names = [name for name, place in dim.items() if place == OWN]
        changed = copy.copy(rows)
        for name in names:
            if isinstance(rows, MutableMapping):
                changed[name] = own[name]
            else:
                setattr(changed, name, getattr(own, name))
        return changed
    assert isinstance(dim, Sequence)
    parts = [mine if at == OWN else one for one, mine, at in zip(rows, own, dim, strict=True)]
    return type(rows)(*parts) if hasattr(rows, "_fields") else type(rows)(parts)


def number_of_rows(batch: Any, dim: Dimensions) -> int | None:
    """How many rows the first tensor or array of a batch has, with ``dim`` as for ``rows_of``.

    None where there is none.
    """
    counts: list[int] = []

    def count(part: Any, place: Dimensions) -> None:
        if place is None or place == OWN or isinstance(part, _SCALARS):
            return
        if not _is_array(part):
            _mapped(part, place, count)
        elif part.ndim:
            along = place if isinstance(place, int) else cast(Sequence[int], place)[0]
            counts.extend(part.shape[along : along + 1])

    count(batch, dim)
    return counts[0] if counts else None


def _rows_of_array(array: Any, dim: int, total: int, first: int, last: int) -> Any:
    if not array.ndim:
        return array
    if array.ndim <= dim or array.shape[dim] != total:
        shape = tuple(array.shape)
        raise ValueError(f"no {total} rows along dimension {dim} of a tensor of {shape}")
    return _part(array, dim, total, first, last)


def _mapped(batch: Any, dim: Dimensions, change: Callable[[Any, Any], Any]) -> Any:
    """A container, or an object, with ``change(part, dim)`` of each of its parts."""
    if isinstance(batch, dict):
        places = dim if isinstance(dim, dict) else dict.fromkeys(batch, dim)
        return {key: change(value, places[key]) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        dims = dim if isinstance(dim, Sequence) else [dim] * len(batch)
        parts = [change(value, place) for value, place in zip(batch, dims, strict=True)]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    if isinstance(batch, MutableMapping):  # a tokenizer's encoding
        changed = copy.copy(batch)
        for key, value in batch.items():
            changed[key] = change(value, dim[key] if isinstance(dim, dict) else dim)
        return changed
    if not isinstance(dim, dict) or not hasattr(batch, "__dict__"):
        raise TypeError(f"where the rows lie in a {type(batch).__name__} is not known")
    changed = copy.copy(batch)
    for name, place in dim.items():
        setattr(changed, name, change(getattr(batch, name), place))
    return changed


def number_of_samples(batch: Any, dim: int = 0) -> int | None:
    """The number of rows of the first thing in a batch that has any; None where nothing has."""
    if _is_array(batch):
        return int(batch.shape[dim]) if batch.ndim > dim else None
    parts = batch.values() if isinstance(batch, dict) else batch
    if isinstance(batch, (dict, tuple)) or _holds_tensors(batch):
        found = (number_of_samples(part, dim) for part in parts)
        return next((rows for rows in found if rows is not None), None)
    return len(batch) if isinstance(batch, list) and dim == 0 else None


def _holds_tensors(batch: Any) -> bool:
    return isinstance(batch, list) and bool(batch) and all(_is_array(part) for part in batch)


def _is_array(batch: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(batch, torch.Tensor) or (
        numpy is not None and isinstance(batch, numpy.ndarray)
    )


def _part(batch: Any, dim: int, total: int, first: int, last: int) -> Any:
    if _is_array(batch):
        if batch.ndim <= dim:
            return batch
        if batch.shape[dim] != total:
            raise ValueError(
                f"shard_batch: {batch.shape[dim]} rows along dimension {dim}"
                f" beside a batch of {total}"
            )
        part = batch[(slice(None),) * dim + (slice(first, last),)]
        # Columns are no longer in one piece, as the script may expect of what it made so.
        whole = isinstance(batch, torch.Tensor) and batch.is_contiguous()
        return part.contiguous() if whole else part
    if isinstance(batch, dict):
        return {key: _part(value, dim, total, first, last) for key, value in batch.items()}
    if isinstance(batch, tuple):
        parts = [_part(value, dim, total, first, last) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    if _holds_tensors(batch):
        return [_part(value, dim, total, first, last) for value in batch]
    return batch[first:last] if isinstance(batch, list) and len(batch) == total else batch
