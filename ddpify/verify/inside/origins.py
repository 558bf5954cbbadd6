"""Where numbers come from: the batches, scalar tensors and conversions that each was computed from.

A number is known by the lines of the script on the stack, the optimizer step, and how often that
place was reached in it. Ranks that run the same code give the same number the same key, and their
values can be compared afterwards: no collective is needed, and no guess of what is local.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

MAX_RECORDED = 40_000
MAX_PARENTS = 6

Origins = tuple[int, ...]


class Provenance:
    """The origins of one rank.

    Args:
        emit: Takes each event: a kind and its values.
        folder: The script's folder.
        step: Tells the number of optimizer steps so far.
    """

    def __init__(self, emit: Callable[..., None], folder: str, step: Callable[[], int]) -> None:
        self.emit, self._folder, self._step = emit, folder.rstrip("/") + "/", step
        self._count = 0
        self._reached: Counter[str] = Counter()
        self._marks: dict[int, tuple[weakref.ref[torch.Tensor], Origins, int]] = {}
        self._at_step = 0

    def place(self, kind: str) -> tuple[str, str]:
        """The innermost line of the script, and a key for it, the lines above it and the visit.

        Visits are counted for each ``kind`` by itself.
        """
        frame: Any = sys._getframe(1)
        lines = []
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(self._folder) and not path.endswith("ddpify_runtime.py"):
                lines.append(f"{path[len(self._folder) :]}:{frame.f_lineno}")
            frame = frame.f_back
        if self._step() != self._at_step:
            self._at_step = self._step()
            self._reached.clear()
        path = f"{kind}:{'<'.join(lines)}"
        self._reached[path] += 1
        return (lines[0] if lines else ""), f"{path}@{self._at_step}#{self._reached[path]}"

    def asked_by_script(self) -> bool:
        """Whether a line of the script itself calls the torch function that is followed."""
        frame: Any = sys._getframe(1)
        while frame is not None and "/ddpify/verify/inside/" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self._folder)

    def new(self, value: float, parents: Origins = (), what: str = "value") -> Origins:
        """A number that comes into being at this line, by the function ``what``."""
        if self._count >= MAX_RECORDED:
            return parents
        at, key = self.place(what)
        if not at:
            return parents
        self._count += 1
        self.emit("value", id=self._count, at=at, key=key, value=value, parents=list(parents))
        return (self._count,)

    def of(self, value: Any) -> Origins:
        """The origins of a tensor, a tracked number, or what a list or dictionary holds."""
        if isinstance(value, torch.Tensor):
            found = self._marks.get(id(value))
            known = found is not None and found[0]() is value and found[2] == _version(value)
            return found[1] if found is not None and known else ()
        if isinstance(value, (list, tuple)):
            return merged(self.of(item) for item in value[:64])
        if isinstance(value, dict):
            return merged(self.of(item) for item in list(value.values())[:64])
        origins: Origins = getattr(value, "ddpify_origins", ())
        return origins

    def mark(self, tensor: torch.Tensor, origins: Origins) -> None:
        """Remember what ``tensor`` was computed from; nothing, where ``origins`` is empty."""
        key = id(tensor)
        if not origins:
            self._marks.pop(key, None)
            return
        reference = weakref.ref(tensor, lambda _: self._marks.pop(key, None))
        self._marks[key] = (reference, origins, _version(tensor))

    def exchanged(self, values: Iterable[Any]) -> None:
        """A collective wrote to ``values``: what they were computed from says nothing any more."""
        stores = set()
        for value in values:
            if isinstance(value, (list, tuple)):
                self.exchanged(value)
            elif type(value) is torch.Tensor:
                stores.add(_store(value))
        for key, (reference, *_) in list(self._marks.items()):
            tensor = reference()
            if tensor is not None and stores and _store(tensor) in stores:
                self._marks.pop(key, None)


def merged(origins: Iterable[Origins]) -> Origins:
    """The union, cut to the first ones."""
    found: dict[int, None] = {}
    for one in origins:
        found.update(dict.fromkeys(one))
    return tuple(found)[:MAX_PARENTS]


def _version(tensor: torch.Tensor) -> int:
    """How often a scalar was written to; 0 of any other tensor.

    A scalar whose value arrives later, as that of a reduction under way, is written through another
    tensor of the same memory.
    """
    with torch._C.DisableTorchFunction():
        return 0 if tensor.ndim or tensor.is_inference() else tensor._version


def _store(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunction():
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
            return -id(tensor)
        return tensor.untyped_storage().data_ptr()
