"""The mean of gradients over the ranks, dense or sparse."""

from collections.abc import Sequence
from typing import overload

import torch
import torch.distributed as dist
from torch import nn

from ddpify.runtime.joint_collectives import exchange_together
from ddpify.runtime.process import kept, world_size

_DENSE, _SPARSE = 1, 2


def has_sparse_gradients(model: nn.Module) -> bool:
    """Whether a layer gives its parameters sparse gradients, as ``nn.Embedding(sparse=True)``."""
    layers = (nn.Embedding, nn.EmbeddingBag)
    return any(isinstance(m, layers) and m.sparse for m in model.modules())


@torch.no_grad()
def average_gradients(parameters: Sequence[torch.Tensor]) -> None:
    """Replace each gradient by its mean over the ranks, one that a rank lacks counting as zero.

    A gradient that is sparse on every rank that has it stays sparse. A collective.
    """
    dense: list[torch.Tensor] = []
    for parameter, kinds in zip(parameters, _kinds(parameters), strict=True):
        if kinds == _SPARSE:
            parameter.grad = _sparse_average(parameter)
        elif kinds:
            parameter.grad = _as_dense(parameter)
            dense.append(parameter.grad)
    exchange_together(dense, _average_over_ranks)


Gradient = torch.Tensor | None


@overload
def averaged(gradients: Gradient) -> Gradient: ...


@overload
def averaged(gradients: tuple[Gradient, ...]) -> tuple[Gradient, ...]: ...


@torch.no_grad()
def averaged(gradients: Gradient | tuple[Gradient, ...]) -> Gradient | tuple[Gradient, ...]:
    """The gradients of the global batch's loss, where the script takes them itself.

    gradients: what ``torch.autograd.grad(loss, tensors)`` gives on each rank of a loss that
    ``mean()`` or ``sum()`` has reduced, or the ``.grad`` of a tensor that all ranks hold: dense
    tensors, and None for what the loss does not use. Returns their means over the ranks, which no
    gradient goes through; in one process the same object. A collective.

    Raises RuntimeError where a gradient is sharded, as those of ``wrap(strategy="fsdp")`` are.
    """
    if world_size() == 1 or gradients is None:
        return gradients
    if isinstance(gradients, torch.Tensor):
        return averaged((gradients,))[0]
    if any(hasattr(one, "to_local") for one in gradients):
        raise RuntimeError("the gradients of a sharded model can be had from backward() alone")
    found = tuple(None if one is None else one.clone() for one in gradients)
    exchange_together((one for one in found if one is not None), _average_over_ranks)
    return found


def _kinds(parameters: Sequence[torch.Tensor]) -> list[int]:
    """For each parameter the kinds of gradients that ranks have: their sum, 0 for none."""
    own = [
        [False, False] if p.grad is None else [not p.grad.is_sparse, p.grad.is_sparse]
        for p in parameters
    ]
    anywhere = kept(torch.tensor(own, dtype=torch.uint8).to(parameters[0].device))
    dist.all_reduce(anywhere, dist.ReduceOp.MAX)
    return [_DENSE * dense + _SPARSE * sparse for dense, sparse in anywhere.tolist()]


def _as_dense(parameter: torch.Tensor) -> torch.Tensor:
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    return parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad


def _average_over_ranks(tensor: torch.Tensor) -> None:
    dist.all_reduce(tensor)
    tensor.div_(world_size())


def _sparse_average(parameter: torch.Tensor) -> torch.Tensor:
    """The mean of sparse gradients: ranks exchange the rows that they have, and no others."""
    rows, values = _sparse_rows(parameter)
    counts = _from_all_ranks(torch.tensor([len(rows)], device=parameter.device))
    longest = int(max(counts))
    all_rows = _from_all_ranks(_padded(rows, longest))
    all_values = _from_all_ranks(_padded(values, longest))
    own = [slice(0, int(count)) for count in counts]
    joined = torch.sparse_coo_tensor(
        torch.cat([rows[part] for rows, part in zip(all_rows, own, strict=True)])[None],
        torch.cat([values[part] for values, part in zip(all_values, own, strict=True)]),
        parameter.shape,
    )
    return (joined / world_size()).coalesce()


def _sparse_rows(parameter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers and the values of the rows of a sparse gradient; none where there is none."""
    if parameter.grad is None:
        numbers = torch.empty(0, dtype=torch.int64, device=parameter.device)
        return numbers, parameter.new_empty((0, *parameter.shape[1:]))
    grad = parameter.grad.coalesce()
    return grad.indices()[0], grad.values()


def _padded(rows: torch.Tensor, length: int) -> torch.Tensor:
    """As many rows as ``length``, the last ones zeros."""
    return torch.cat([rows, rows.new_zeros((length - len(rows), *rows.shape[1:]))])


def _from_all_ranks(part: torch.Tensor) -> list[torch.Tensor]:
    part = kept(part.contiguous())
    parts = [torch.empty_like(part) for _ in range(world_size())]
    dist.all_gather(parts, part)
    return parts
