"""Inside one rank: the time of each optimizer step, and what of it was waiting."""

from __future__ import annotations

import functools
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader as loaders

from ddpify.profiling.ddp_log import WrappedModels
from ddpify.profiling.samples import is_replicated, samples_of
from ddpify.profiling.scaling import GRADIENTS
from ddpify.verify.inside.collectives import NAMES
from ddpify.verify.inside.patching import replace

LOADER = "data loader"


@dataclass
class Meter:
    """Measures the steps of the optimizer that steps first.

    Attributes:
        steps: For each step its seconds, those spent waiting for a loader, and those spent waiting
            for other ranks: in collectives, and in the part of DistributedDataParallel's that the
            backward does not hide (which it reports itself).
        calls: For each step the seconds by what was waited for.
        overlap: For each step the seconds that gradients travelled, and those that were hidden.
        samples: For each step how many of its rank a loader gave; 0 where none tells.
        timeline: Of the last step, what was done from when to when, on the clock of ``time.time``.
        workers: The most worker processes of a loader.
        autocast: Whether the script uses it.

    Args:
        most: Steps to measure.
    """

    most: int
    steps: list[tuple[float, float, float]] = field(default_factory=list)
    calls: list[dict[str, float]] = field(default_factory=list)
    overlap: list[tuple[float, float]] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    timeline: list[tuple[str, float, float]] = field(default_factory=list)
    workers: int = 0
    autocast: bool = False

    def __post_init__(self) -> None:
        self.wrapped = WrappedModels()
        self.replicated: weakref.WeakSet[Any] = weakref.WeakSet()
        self.optimizer: Any = None
        self.inside = ""
        self.at = 0.0
        self._forget()

    def install(self, done: Callable[[Any], None]) -> None:
        """Hook loaders, collectives, wrapped models and optimizers of this process.

        ``done`` is called after the last step, with the optimizer.
        """
        self.done = done
        self._watch_loaders()
        self._watch_autocast()
        for name in NAMES:
            real = getattr(distributed_c10d, name, None)
            if real is not None:
                timed = self._timed("ranks", name, real)
                replace(distributed_c10d, name, timed)
                replace(dist, name, timed)
        replace(dist.Work, "wait", self._timed("ranks", "Work.wait", dist.Work.wait))
        self.wrapped.watch()
        optimizers.register_optimizer_step_post_hook(self._stepped)

    def _watch_loaders(self) -> None:
        base: Any = loaders._BaseDataLoaderIter
        timed = self._timed("data", LOADER, base.__next__)

        def following(iterator: Any) -> Any:
            self.workers = max(self.workers, iterator._num_workers)
            batch = timed(iterator)
            self.taken += 0 if iterator in self.replicated else samples_of(batch)
            return batch

        replace(base, "__next__", following)
        make: Any = loaders.DataLoader._get_iterator

        def made(loader: Any) -> Any:
            iterator = make(loader)
            if is_replicated(loader):
                self.replicated.add(iterator)
            return iterator

        replace(loaders.DataLoader, "_get_iterator", made)

    def _watch_autocast(self) -> None:
        enter: Any = torch.autocast.__enter__

        def entered(context: Any) -> Any:
            self.autocast = True
            return enter(context)

        replace(torch.autocast, "__enter__", entered)

    def _timed(self, kind: str, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Adds a call's time to its kind; a call inside another of either kind is part of that."""

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return real(*args, **kwargs)
            self.inside, start = kind, time.time()
            try:
                return real(*args, **kwargs)
            finally:
                self._waited(kind, name, start, time.time())
                self.inside = ""

        return call

    def _waited(self, kind: str, name: str, start: float, end: float) -> None:
        self.waited[kind] += end - start
        self.by_name[name] += end - start
        self.spans.append((kind, start, end))

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        self.optimizer = self.optimizer or optimizer
        if optimizer is not self.optimizer or len(self.steps) >= self.most:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.time()
        self._backward()
        self.steps.append(
            (now - self.at if self.at else 0.0, self.waited["data"], self.waited["ranks"])
        )
        self.calls.append(dict(self.by_name))
        self.samples.append(self.taken)
        self.timeline = [("step", self.at, now), *self.spans]
        self.at = time.time()
        self._forget()
        if len(self.steps) == self.most:
            self.done(self.optimizer)

    def _backward(self) -> None:
        """What the last backward of each wrapped model took, and waited for."""
        last = self.wrapped.last()
        exposed = sum(one.exposed for one in last)
        if last:
            self.waited["ranks"] += exposed
            self.by_name[GRADIENTS] += exposed
        self.spans += [span for one in last for span in one.spans]
        total = sum(one.communication for one in last)
        self.overlap.append((total, sum(one.hidden for one in last)))

    def _forget(self) -> None:
        """A new step begins."""
        self.waited = {"data": 0.0, "ranks": 0.0}
        self.taken = 0
        self.by_name: defaultdict[str, float] = defaultdict(float)
        self.spans: list[tuple[str, float, float]] = []
