"""Inside one rank: the time of each optimizer step, and what of it was waiting."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader as loaders

from ddpify.verify.inside.collectives import NAMES
from ddpify.verify.inside.patching import replace

NANO = 1e-9


@dataclass
class Meter:
    """Measures the steps of the optimizer that steps first.

    ``steps`` holds for each step its seconds, those spent waiting for a loader, and those spent
    waiting for other ranks: in collectives, and in the part of DistributedDataParallel's that the
    backward does not hide (which it reports itself).

    Args:
        most: Steps to measure.
        done: Called after the last of them.
    """

    most: int
    done: Callable[[], None]
    steps: list[tuple[float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waited = {"data": 0.0, "ranks": 0.0}
        self.inside = ""
        self.wrappers: list[DistributedDataParallel] = []
        self.optimizer: Any = None
        self.at = 0.0

    def install(self) -> None:
        """Hook loaders, collectives, wrapped models and optimizers of this process."""
        base: Any = loaders._BaseDataLoaderIter
        replace(base, "__next__", self._timed("data", base.__next__))
        for name in NAMES:
            real = getattr(distributed_c10d, name, None)
            if real is not None:
                timed = self._timed("ranks", real)
                replace(distributed_c10d, name, timed)
                replace(dist, name, timed)
        replace(dist.Work, "wait", self._timed("ranks", dist.Work.wait))
        self._watch_wrappers()
        optimizers.register_optimizer_step_post_hook(self._stepped)

    def _timed(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Adds a call's time to its kind; a call inside another of either kind is part of that."""

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return real(*args, **kwargs)
            self.inside, start = kind, time.perf_counter()
            try:
                return real(*args, **kwargs)
            finally:
                self.waited[kind] += time.perf_counter() - start
                self.inside = ""

        return call

    def _watch_wrappers(self) -> None:
        begin = DistributedDataParallel.__init__

        def construct(model: Any, *args: Any, **kwargs: Any) -> None:
            begin(model, *args, **kwargs)
            model._set_ddp_runtime_logging_sample_rate(1)
            self.wrappers.append(model)

        replace(DistributedDataParallel, "__init__", construct)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        self.optimizer = self.optimizer or optimizer
        if optimizer is not self.optimizer or len(self.steps) >= self.most:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        waited = self.waited["ranks"] + self._exposed()
        self.steps.append((now - self.at if self.at else 0.0, self.waited["data"], waited))
        self.at, self.waited = time.perf_counter(), {"data": 0.0, "ranks": 0.0}
        if len(self.steps) == self.most:
            self.done()

    def _exposed(self) -> float:
        """Seconds that the last backward waited for gradients beyond its own computation."""
        seconds = 0.0
        for model in self.wrappers:
            logger = getattr(model, "logger", None)
            if logger is not None and hasattr(model, "reducer"):
                # It reads its timers in forward alone: without this, it tells of the step before.
                logger.set_runtime_stats_and_log()
                told: dict[str, float] = model._get_ddp_logging_data()  # type: ignore[no-untyped-call]
                hidden = told.get("backward_compute_comm_overlap_time", 0)
                seconds += max(told.get("backward_comm_time", 0) - hidden, 0) * NANO
        return seconds
