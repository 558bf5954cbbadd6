"""Every collective that the script takes part in, with the line of the script that led to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from ddpify.verify.inside.gradients import owner
from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.world import computes

MAX_RECORDED = 20_000
_GROUP = dist.ProcessGroup if dist.is_available() else ()
NAMES = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "new_group",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
]


class Collectives:
    """Watches the collectives of one rank.

    Args:
        emit: Takes each event: a kind and its values.
        folder: The script's folder; the innermost line of a file in it is the caller's.

    Attributes:
        forwards: Calls of a wrapped model while gradients are recorded, since it was last reset.
        synchronised: Whether the latest of them is outside of ``no_sync``.
        module_read: Whether the script itself reached through a wrapper, since it was last reset.
        wrapped: Parameters of wrapped models, by id: "averaged", or "frozen" at that time.
        exchanged: Takes the arguments of each collective when it has begun.
        reducing: Takes each tensor that all ranks are about to reduce.
    """

    def __init__(self, emit: Callable[..., None], folder: str) -> None:
        self._emit, self._folder = emit, folder.rstrip("/") + "/"
        self._depth = 0
        self._count = 0
        self.forwards = 0
        self.synchronised = True
        self.module_read = False
        self.wrapped: dict[int, str] = {}
        self._averaged: list[torch.nn.Parameter] = []
        self.exchanged: Callable[[Any], None] = lambda values: None
        self.reducing: Callable[[Any], None] = lambda tensor: None

    def install(self) -> None:
        """Hook the functions of torch.distributed and the calls of wrapped models."""
        if not dist.is_available():
            return
        for name in NAMES:
            real = getattr(distributed_c10d, name, None)
            if real is not None:
                watched = self._watched(name, real)
                replace(distributed_c10d, name, watched)
                replace(dist, name, watched)
        self._wrapper("__init__", "DistributedDataParallel")
        self._wrapper("forward", "DistributedDataParallel.forward")
        self._watch_module()

    def _wrapper(self, method: str, name: str) -> None:
        real = getattr(DistributedDataParallel, method)
        counted = self._watched(name, real)

        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if method == "forward" and not _communicates(model):
                return real(model, *args, **kwargs)
            self.forwards += method == "forward" and torch.is_grad_enabled()
            if method == "forward" and torch.is_grad_enabled():
                self.synchronised = model.require_backward_grad_sync
            if method == "__init__":
                module = args[0] if args else kwargs["module"]
                for parameter in module.parameters():
                    self.wrapped[id(parameter)] = (
                        "averaged" if parameter.requires_grad else "frozen"
                    )
                self._averaged += [p for p in module.parameters() if p.requires_grad]
            result = counted(model, *args, **kwargs)
            if method == "__init__":
                sent, equal = model.broadcast_buffers, kwargs.get("init_sync", True)
                self._emit(
                    "wrapped", broadcast_buffers=sent, init_sync=bool(equal), at=self.caller()
                )
            return result

        replace(DistributedDataParallel, method, call)

    def _watch_module(self) -> None:
        """Note when a line of the script reads ``wrapper.module`` while gradients are recorded."""
        found = torch.nn.Module.__getattr__

        def read(model: Any, name: str) -> Any:
            if name == "module" and torch.is_grad_enabled():
                asker = sys._getframe(1).f_code.co_filename
                self.module_read |= asker.startswith(self._folder)
            return found(model, name)

        replace(DistributedDataParallel, "__getattr__", read)

    def _watched(self, name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._begun(name, args, kwargs)
                result = real(*args, **kwargs)
                if self._depth == 1 and name in NAMES:
                    self.exchanged([*args, *kwargs.values()])
                return result
            finally:
                self._depth -= 1

        call.__name__ = call.__qualname__ = name
        return call

    def _begun(self, name: str, args: Any, kwargs: Any) -> None:
        """A collective begins: of all ranks, or of a group of them."""
        given = (value for value in (kwargs.get("group"), *args) if isinstance(value, _GROUP))
        group = next(given, None)
        if name in NAMES and group is not None and group is not dist.group.WORLD:
            if self._count < MAX_RECORDED:
                self._count += 1
                self._emit("grouped", op=name, shape=_shape(args), at=self.caller(),
                           ranks=dist.get_process_group_ranks(group))  # fmt: skip
            return
        self.note(name, _shape(args), _bytes(args))
        if name == "all_reduce":
            self.reducing(args[0] if args else kwargs.get("tensor"))
            if self.synchronised:
                self._exchanged_again(args)

    def _exchanged_again(self, args: Any) -> None:
        """A gradient that the wrapper averages is reduced by the script itself."""
        if owner(args[0] if args else None, self._averaged) is not None:
            self._emit("again", at=self.caller())

    @property
    def inside(self) -> bool:
        """Whether a collective, or something that communicates, is under way."""
        return self._depth > 0

    def note(self, name: str, shape: list[int] | None = None, size: int = 0) -> None:
        """A collective begins, or what ranks do together besides; ``size``: bytes of its tensor."""
        if self._count < MAX_RECORDED:
            self._count += 1
            lines = self._lines()
            at = lines[0] if lines else ""
            self._emit("collective", op=name, shape=shape, at=at, size=size, chain=lines)

    def _lines(self) -> list[str]:
        """The lines of the script's own files on the stack, the innermost one first."""
        frame: Any = sys._getframe(2)
        found = []
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(self._folder) and not path.endswith("ddpify_runtime.py"):
                found.append(f"{path[len(self._folder) :]}:{frame.f_lineno}")
            frame = frame.f_back
        return found

    def caller(self, *, importing: bool = True) -> str:
        """The innermost line of the script's own files on the stack, as ``file.py:12``.

        With ``importing`` false, empty for what happens while that line imports something.
        """
        frame: Any = sys._getframe(2)
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith("<frozen importlib") and not importing:
                return ""
            if path.startswith(self._folder) and not path.endswith("ddpify_runtime.py"):
                return f"{path[len(self._folder) :]}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


def _communicates(model: DistributedDataParallel) -> bool:
    """Whether a forward sends buffers, or prepares the gradients' exchange; any rank may make
    others by itself, as to evaluate or to draw the model's graph."""
    sends: bool = model.will_sync_module_buffers()  # type: ignore[no-untyped-call]
    return sends or computes()


def _bytes(args: tuple[Any, ...]) -> int:
    """Size of the first argument that is a tensor."""
    first = args[0] if args else None
    return first.numel() * first.element_size() if isinstance(first, torch.Tensor) else 0


def _shape(args: tuple[Any, ...]) -> list[int] | None:
    """Shape of the first argument that is a tensor, where all ranks must agree on it."""
    first = args[0] if args else None
    return list(first.shape) if isinstance(first, torch.Tensor) else None
