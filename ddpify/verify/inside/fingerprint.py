"""Two numbers for a tensor: small enough to keep for every step, sensitive enough to compare by."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

CHUNK = 1 << 20
MAX_KEYS = 20_000


_UNSEEN = torch._C.DisableTorchFunction
"""Within it, what is computed passes by the modes that follow the script's own tensors."""


@functools.lru_cache(maxsize=2)
def directions(device: torch.device) -> torch.Tensor:
    """Fixed pseudo-random values of about unit variance, shape (CHUNK,), float64."""
    at = torch.arange(1, CHUNK + 1, dtype=torch.float64, device=device)
    return torch.sin(at * at * 0.7310585786 + at * 1.6180339887) * math.sqrt(2.0)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The plain tensor behind ``tensor``; of a DTensor, this rank's part."""
    plain = tensor.detach()
    part = getattr(plain, "to_local", None)
    return part() if callable(part) else plain


def is_divided(tensor: torch.Tensor) -> bool:
    """Whether ranks hold different rows of ``tensor``, as FSDP divides parameters."""
    return any(place.is_shard(0) for place in getattr(tensor, "placements", ()))


def fingerprint(tensor: torch.Tensor) -> tuple[float, float]:
    """Norm of ``tensor`` and its projection on a fixed direction with entries of unit variance.

    For two tensors, the difference of the projections has the size of the norm of their difference
    (root mean square over directions). Works through chunks, so the extra memory is constant. Of
    a divided tensor, this rank's rows alone, in their place in the whole: the squares of the
    ranks' norms, and their projections, add up to those of the whole.
    """
    with torch.no_grad(), _UNSEEN():
        flat = local(tensor).reshape(-1)
        at, end = _first_element(tensor), 0
        squares, projection = 0.0, 0.0
        while end < flat.numel():
            number, inside = divmod(at + end, CHUNK)
            part = flat[end : end + CHUNK - inside].to(torch.float64)
            squares += float(part @ part)
            along = directions(part.device)[inside : inside + part.numel()]
            projection += math.cos(number) * float(part @ along)
            end += part.numel()
    return math.sqrt(squares), projection


def _first_element(tensor: Any) -> int:
    """Where this rank's rows begin in the whole of a divided tensor; 0 of any other."""
    if not is_divided(tensor):
        return 0
    mesh = tensor.device_mesh
    rows = tensor.shape[0]
    first: int = min(mesh.get_local_rank() * -(-rows // mesh.size()), rows)
    elements: int = tensor.numel() // max(rows, 1)
    return first * elements


def rows(tensor: torch.Tensor) -> list[float]:
    """One number per row (index of dim 0) of ``tensor``: its projection on a fixed direction."""
    if not tensor.numel():
        return [0.0] * tensor.shape[0]
    with torch.no_grad(), _UNSEEN():
        flat = local(tensor).reshape(tensor.shape[0], -1)[:, :CHUNK].to(torch.float64)
        values: list[float] = (flat @ directions(flat.device)[: flat.shape[1]]).tolist()
    return values


def row(tensor: torch.Tensor) -> float:
    """One number for a whole sample: its projection on a fixed direction."""
    if not tensor.numel():
        return 0.0
    with _UNSEEN():
        flat = local(tensor).reshape(-1)[:CHUNK]
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)[:CHUNK]
        return float(flat.to(torch.float64) @ directions(flat.device)[: flat.numel()])


def tree(value: Any) -> dict[str, Any]:
    """Keys and fingerprints of a checkpoint: path of keys -> [shape, norm, projection] or a
    scalar."""
    leaves: dict[str, Any] = {}
    for key, leaf in _leaves(value, ""):
        if len(leaves) >= MAX_KEYS:
            break
        leaves[key] = leaf
    return leaves


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, torch.Tensor):
        yield key, _tensor_leaf(value)
    elif isinstance(value, Mapping):
        for name in value:
            yield from _leaves(value[name], f"{key}/{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from _leaves(item, f"{key}/{position}" if key else str(position))
    elif isinstance(value, (bool, int, float, str)) or value is None:
        yield key, value
    else:
        yield key, f"<{type(value).__name__}>"


def _tensor_leaf(value: torch.Tensor) -> Any:
    if value.is_complex() or value.is_sparse or value.is_quantized:
        return [list(value.shape), 0.0, 0.0]
    return [list(value.shape), *fingerprint(value)]
