"""Activation checkpointing: blocks whose activations are computed again in backward."""

import functools
import warnings
from typing import Any, cast

from torch import nn
from torch.utils.checkpoint import checkpoint

from ddpify.runtime.blocks import has_batch_norm
from ddpify.runtime.classes import reduced_as, subclass_of


class RecomputedModule(nn.Module):
    """Mixed in before the class of a block: keeps its inputs alone for the backward."""

    recomputed_class: type[nn.Module]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As the block's own class, which the reader's process has."""
        return reduced_as(self.recomputed_class, type(self), super().__reduce_ex__(protocol))


def recompute_blocks(blocks: list[nn.Module]) -> None:
    """Let blocks, in place, compute their activations again in backward instead of keeping them.

    One with batch normalisation is left as it is, with a warning: computed twice, it would count
    each batch twice in its running statistics.
    """
    for block in blocks:
        if has_batch_norm(block):
            warnings.warn(
                f"{type(block).__name__} holds batch normalisation: its activations are kept",
                stacklevel=4,
            )
        elif not isinstance(block, RecomputedModule):
            block.__class__ = _recomputed_class(cast(Any, type(block)))


@functools.cache
def _recomputed_class(plain: Any) -> Any:
    @functools.wraps(plain.forward)
    def forward(self: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
        run = functools.partial(plain.forward, self)
        return checkpoint(run, *inputs, use_reentrant=False, **kwargs)

    return subclass_of(plain, RecomputedModule, recomputed_class=plain, forward=forward)
