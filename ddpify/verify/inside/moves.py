"""Models that are moved or cast after they were wrapped.

In double precision on the CPU neither has an effect; on a GPU the wrapper loses the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ddpify.verify.inside.patching import replace

_CASTS = {"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}


class Moves:
    """Watches the methods that move and cast modules.

    Args:
        wrapped: Parameters of wrapped models, by id.
        found: Called when one of them is moved or cast, with what happened.
    """

    def __init__(self, wrapped: Mapping[int, str], found: Callable[[str], None]) -> None:
        self._wrapped, self._found = wrapped, found
        self._moved: set[int] = set()

    def install(self) -> None:
        """Hook the methods of torch.nn.Module."""
        for name in (*_CASTS, "cuda", "to"):
            self._watch(name)

    def _watch(self, name: str) -> None:
        real = getattr(torch.nn.Module, name)

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            values = (*args, *kwargs.values())
            cast = name in _CASTS or any(value in _CASTS.values() for value in values)
            self._changed(module, cast=cast, moved=name == "cuda" or any(map(_gpu, values)))
            return real(module, *args, **kwargs)

        call.__name__ = name
        replace(torch.nn.Module, name, call)

    def _changed(self, module: torch.nn.Module, *, cast: bool, moved: bool) -> None:
        ids = {id(parameter) for parameter in module.parameters()}
        wrapped = bool(ids & self._wrapped.keys())
        if wrapped and (cast or (moved and ids - self._moved)):
            self._found("cast" if cast else "moved to a GPU")
        if moved:
            self._moved |= ids


def _gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.startswith("cuda")
