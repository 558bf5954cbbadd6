"""Checkpoints and arrays that are written, with their content."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from ddpify.verify.inside.fingerprint import tree
from ddpify.verify.inside.patching import replace


class Saves:
    """Watches the functions that write tensors and arrays.

    Args:
        before: Called with a path that is about to be written.
        saved: Called with a path and the content of what was written there.
    """

    def __init__(self, before: Callable[[Any], None], saved: Callable[[Any, Any], None]) -> None:
        self._before, self._saved = before, saved

    def install(self) -> None:
        """Hook torch.save, and NumPy's and safetensors' functions where they are loaded."""
        self._watch(torch, "save", content=0, path=1)
        if "numpy" in sys.modules:
            numpy = sys.modules["numpy"]
            self._watch(numpy, "save", content=1, path=0, suffix=".npy")
            self._watch(numpy, "savez", content=None, path=0, suffix=".npz")
        if "safetensors.torch" in sys.modules:
            self._watch(sys.modules["safetensors.torch"], "save_file", content=0, path=1)

    def _watch(
        self, owner: Any, name: str, *, content: int | None, path: int, suffix: str = ""
    ) -> None:
        """Hook ``owner.name``; ``content``, ``path``: places of its arguments (None: all named)."""
        real = getattr(owner, name)
        last = max(path, content or 0)

        def watched(*args: Any, **kwargs: Any) -> Any:
            place = args[path] if len(args) > path else None
            named = isinstance(place, (str, os.PathLike))
            if named:
                place = _with_suffix(place, suffix)
                self._before(place)
            result = real(*args, **kwargs)
            place = place if named else getattr(place, "name", None)
            if isinstance(place, (str, os.PathLike)) and len(args) > last:
                self._saved(place, tree(_content(args, kwargs, content)))
            return result

        watched.__name__ = name
        replace(owner, name, watched)


def _with_suffix(path: Any, suffix: str) -> str:
    name = os.fsdecode(path)
    return name if name.endswith(suffix) else name + suffix


def _content(args: tuple[Any, ...], kwargs: dict[str, Any], place: int | None) -> Any:
    """What is written, arrays as tensors."""
    if place is not None:
        return _tensors(args[place])
    return _tensors({**{f"arr_{at}": value for at, value in enumerate(args[1:])}, **kwargs})


def _tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tensors(item) for key, item in value.items()}
    numeric = getattr(getattr(value, "dtype", None), "kind", "") in tuple("iufb")
    if type(value).__module__ == "numpy" and numeric:
        return torch.as_tensor(value)
    return value
