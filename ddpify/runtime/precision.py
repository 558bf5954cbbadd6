"""A model that computes in a narrower dtype than its parameters have."""

import functools
from typing import Any, cast

import torch
from torch import nn

from ddpify.runtime.classes import reduced_as, subclass_of
from ddpify.runtime.inputs import mapped


class AutocastModule(nn.Module):
    """Mixed in before a model's class: its forward runs under autocast, and gives float32."""

    autocast_class: type[nn.Module]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As the model's own class, which the reader's process has."""
        return reduced_as(self.autocast_class, type(self), super().__reduce_ex__(protocol))


def dtype_of(given: torch.dtype | str | None) -> torch.dtype | None:
    """The dtype that an option names."""
    return cast(torch.dtype, getattr(torch, given)) if isinstance(given, str) else given


def autocast_forward(model: nn.Module, dtype: torch.dtype, kind: str) -> None:
    """Let a model's forward, in place, run under autocast.

    kind: the type of its device. Loss functions then get float32, as in a script without autocast.
    """
    model.__class__ = _autocast_class(cast(Any, type(model)), dtype, kind)


@functools.cache
def _autocast_class(plain: Any, dtype: torch.dtype, kind: str) -> Any:
    def widened(x: torch.Tensor) -> torch.Tensor:
        return x.float() if x.dtype == dtype else x

    @functools.wraps(plain.forward)
    def forward(self: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
        with torch.autocast(kind, dtype):
            return mapped(plain.forward(self, *inputs, **kwargs), widened)

    return subclass_of(plain, AutocastModule, autocast_class=plain, forward=forward)
