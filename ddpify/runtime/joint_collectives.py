"""One collective for many tensors."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch

from ddpify.runtime.process import kept


@torch.no_grad()
def exchange_together(
    tensors: Iterable[torch.Tensor], exchange: Callable[[torch.Tensor], object]
) -> None:
    """Join tensors, let ``exchange`` change them, and copy them back: once for each kind of them.

    tensors: of any shapes; those of one dtype and device are joined. exchange: a collective that
    changes one tensor of one dimension in place.
    """
    alike: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = defaultdict(list)
    for tensor in tensors:
        alike[tensor.dtype, tensor.device].append(tensor)
    for group in alike.values():
        joined = kept(torch.cat([tensor.reshape(-1) for tensor in group]))
        exchange(joined)
        parts = torch.split(joined, [tensor.numel() for tensor in group])
        for tensor, part in zip(group, parts, strict=True):
            tensor.copy_(part.view_as(tensor))
