"""A trace of some steps by PyTorch's own profiler, which Perfetto and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim import optimizer as optimizers
from torch.profiler import ProfilerActivity, profile

STEPS = 5
"""Steps that are traced: enough to see how they differ, in a file that still opens."""


class Tracer:
    """Traces the steps after it is started, and writes them to ``path``.

    Args:
        path: The file, in the Trace Event Format (JSON).
        done: Called after the last traced step.
    """

    def __init__(self, path: Path, done: Callable[[], None]) -> None:
        self.path, self.done = path, done
        self.profiler: Any = None
        self.left = STEPS

    def start(self, optimizer: Any) -> None:
        """Trace from now on, to the step of that optimizer after which none is left."""
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self.profiler = profile(activities=activities)
        self.profiler.start()
        optimizers.register_optimizer_step_post_hook(
            lambda stepped, *_: self._stepped(stepped is optimizer)
        )

    def _stepped(self, counts: bool) -> None:
        self.left -= counts
        if counts and self.left == 0:
            self.finish()
            self.done()

    def finish(self) -> None:
        """Write what has been traced; nothing where tracing has not begun, or is over."""
        if self.profiler is not None:
            self.profiler.stop()
            self.profiler.export_chrome_trace(str(self.path))
            self.profiler = None
