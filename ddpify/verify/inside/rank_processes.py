"""Ranks that a script starts with ``multiprocessing.Process``: each becomes one that exists.

The process that is started as the k-th is rank k. Rank 0 runs its target where the script starts
it, and goes on from there as the parent does; every other rank ends after its own target. A process
whose target cannot reach ``init_process_group`` in the project's code is none of the ranks: it is
started as ever.
"""

from __future__ import annotations

import inspect
import multiprocessing.process
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch.distributed as dist

from ddpify.verify.inside.patching import faked, replace
from ddpify.verify.inside.spawning import another_number

JOINING = "init_process_group"
WORLD_SIZE_PLACE = 3
"""Index of ``world_size`` among the arguments of ``init_process_group``."""


class _Ended:
    """Stands where a started process keeps its ``Popen`` object: it has ended without an error."""

    returncode = 0

    def __init__(self) -> None:
        self.sentinel, other_end = os.pipe()
        os.close(other_end)

    def poll(self, flag: int = 0) -> int:
        return 0

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def terminate(self) -> None:
        """Nothing is left to end."""

    kill = interrupt = terminate

    def close(self) -> None:
        os.close(self.sentinel)


def install(rank: int, world_size: int, root: Path, forget: Callable[[], None]) -> None:
    """Let processes that join a process group be the ranks that run already.

    Args:
        rank: This process's.
        world_size: The number of ranks.
        root: Folder of the project; code elsewhere is not searched for ``init_process_group``.
        forget: Drops what was recorded so far.
    """
    start = multiprocessing.process.BaseProcess.start
    started: list[Any] = []

    def start_rank(self: Any) -> None:
        if not _joins_a_group(getattr(self, "_target", None) or self.run, root):
            start(self)
            return
        faked["multiprocessing.Process"] += 1
        started.append(self)
        self._popen = _Ended()
        if len(started) - 1 != rank:
            return
        if rank:
            forget()
        self.run()
        if rank:
            raise SystemExit(0)

    replace(multiprocessing.process.BaseProcess, "start", start_rank)
    _compare_sizes(world_size, started)


def _compare_sizes(world_size: int, started: list[Any]) -> None:
    """End a started rank whose group would wait for more or fewer ranks than there are."""
    before = dist.init_process_group

    def init_process_group(*args: Any, **named: Any) -> Any:
        told = named.get("world_size", [*args, *[-1] * 4][WORLD_SIZE_PLACE])
        told = int(os.environ["WORLD_SIZE"]) if told in (-1, None) else told
        if started and told != world_size:
            raise another_number(told)
        return before(*args, **named)

    replace(dist, JOINING, init_process_group)
    replace(dist.distributed_c10d, JOINING, init_process_group)


def _joins_a_group(target: Any, root: Path) -> bool:
    """Whether the target, or a function of the project that it names, makes a process group."""
    waiting, seen = [target, *_methods_beside(target)], set()
    while waiting:
        function = _plain_function(waiting.pop())
        if function is None or function in seen or not _is_below(function, root):
            continue
        seen.add(function)
        names = set(_names(function.__code__))
        if JOINING in names:
            return True
        waiting += _named_by(function, names)
    return False


def _methods_beside(target: Any) -> list[Any]:
    """All methods of the object whose method the target is."""
    owner = getattr(target, "__self__", None)
    return [] if owner is None else [value for _, value in inspect.getmembers(type(owner))]


def _plain_function(value: Any) -> FunctionType | None:
    while hasattr(value, "func"):
        value = value.func
    if inspect.isclass(value):
        value = value.__init__
    value = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _is_below(function: FunctionType, root: Path) -> bool:
    return Path(function.__code__.co_filename).resolve().is_relative_to(root.resolve())


def _names(code: CodeType) -> Iterator[str]:
    """Globals and attributes that the code uses, with those of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _named_by(function: FunctionType, names: set[str]) -> Iterator[Any]:
    """What the names may stand for: globals, and attributes of modules."""
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[one] for one in names & vars(value).keys())
