"""A process of its own that runs a script up to its first backward, and measures what it holds.

``python -m ddpify.sizing.child RESULT PRECISION BATCH SCRIPT ARGUMENTS...``: models and optimizers
are there when the script asks a loader for a batch, and activations when it calls ``backward``; it
ends then. BATCH is what loaders' batches are cut to, as in 16:8 for those of 16, or "" for none;
16? answers for batches of any size in place of 16 (:mod:`ddpify.sizing.probing`).
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.utils.data import DataLoader

from ddpify.sizing.activations import Activations, alive_modules, held_by
from ddpify.sizing.models import measured
from ddpify.sizing.peak import Peak
from ddpify.sizing.probing import Probes
from ddpify.sizing.steps import WORKSPACE, Kept


def main(result: str, precision: str, batch: str, script: str, arguments: list[str]) -> None:
    """Run the script up to its first backward, in float32 or under autocast."""
    step: _FirstStep = (
        _Probed(result, int(batch[:-1]))
        if batch.endswith("?")
        else _FirstStep(result, *map(int, batch.split(":") if batch else ()))
    )
    step.watch()
    if precision != "float32":
        autocast: Any = torch.autocast("cpu", dtype=getattr(torch, precision))
        autocast.__enter__()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    step.run(lambda: runpy.run_path(script, run_name="__main__"))


class _FirstStep:
    """Measures when the first batch is asked for, and ends the process at the first backward.

    The former is kept where the step fails, or takes too long.
    """

    def __init__(self, result: str, whole: int = 0, cut: int = 0) -> None:
        self.result, self.whole, self.cut = result, whole, cut
        self._before: int | None = None
        self.activations, self.peak = Activations(), Peak()
        self.found: dict[str, int | None] = {}

    def watch(self) -> None:
        """Hook loaders and autograd of this process."""
        follow: Any = DataLoader.__iter__

        def asked(loader: Any) -> Any:
            self._batch(loader)
            return self._batches(loader, follow)

        DataLoader.__iter__ = asked  # type: ignore[method-assign]
        self._autograd, torch.autograd.backward = torch.autograd.backward, self._backward
        self.activations.watch()

    def run(self, script: Callable[[], object]) -> None:
        """Run the script, which ends the process."""
        script()
        self.finish()

    def _batches(self, loader: Any, follow: Callable[[Any], Any]) -> Any:
        return follow(loader)

    def _batch(self, loader: Any) -> None:
        """The last loader before backward counts: others may have been read for statistics."""
        first = not self.found
        sampler: Any = getattr(loader, "batch_sampler", None)
        if self.cut and getattr(sampler, "batch_size", None) == self.whole:
            sampler.batch_size = self.cut
        size, samples = _batch_size(loader), _samples(loader)
        self.found["batch"] = size and min(size, samples or size)
        self.found["samples"] = samples
        if first:
            _write(self.result, self.found)
        self._follow()

    def _follow(self) -> None:
        """Follow the memory of the rest of the process."""
        peak: Any = self.peak
        if peak.most is None:
            peak.__enter__()
        peak.start(held_by(alive_modules()))
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()

    def _backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """In place of ``torch.autograd.backward``, whose graph is there while it is called."""
        own = [*held_by(alive_modules()), *self._more_held()]
        self.found["activations"] = self.activations.bytes(own)
        self.found |= {"peak": None, "tensors": None}
        self._keep()
        from_elsewhere = self.activations.bytes(own, self.peak.sees)  # such as workers' batches
        with contextlib.suppress(Exception):
            self._autograd(*args, **kwargs)
            self._measure_peak(from_elsewhere)
        self.finish()

    def _keep(self) -> None:
        """Write what there is: the backward may take too long."""
        _write(self.result, self.found)

    def _measure_peak(self, more: int) -> None:
        """After a backward: what tensors took, and what a GPU's allocator held, which is more.

        ``more``: bytes of activations that no operation here has made.
        """
        if self.peak.most is not None:
            gradients = _bytes_of_gradients()
            most = self.peak.most + more
            held = most + WORKSPACE
            if self._before is not None:
                held = torch.cuda.max_memory_allocated() - self._before
            self.found |= {"tensors": most - gradients, "peak": held - gradients}

    def _more_held(self) -> list[torch.Tensor]:
        return []

    def finish(self) -> NoReturn:
        """Write what there is, and end the process at once."""
        self._keep()
        sys.stdout.flush()
        os._exit(0)


class _Probed(_FirstStep):
    """Answers for batches of any size, from the first loader on whose batches are of this one."""

    def __init__(self, result: str, whole: int) -> None:
        super().__init__(result)
        self._batch_size = whole
        self._probes = Probes(whole, self.peak)

    def run(self, script: Callable[[], object]) -> None:
        self._probes.run(script)

    def _batch(self, loader: Any) -> None:
        """Nothing is written: the models are known."""

    def _batches(self, loader: Any, follow: Callable[[Any], Any]) -> Any:
        size = _batch_size(loader)
        whole = size and min(size, _samples(loader) or size) == self._batch_size
        return self._probes.batches(follow(loader)) if whole else follow(loader)

    def _keep(self) -> None:
        """Nothing is written: the step takes no memory, and little time."""

    def _more_held(self) -> list[torch.Tensor]:
        return self._probes.models

    def finish(self) -> NoReturn:
        self._probes.answer(Kept(self.found["activations"] or 0, self.found["tensors"]))
        os._exit(0)


def _bytes_of_gradients() -> int:
    tensors = {p for model in alive_modules() for p in model.parameters()}
    return sum(p.grad.untyped_storage().nbytes() for p in tensors if p.grad is not None)


def _batch_size(loader: Any) -> int | None:
    """Samples of a loader's batches; None where it does not put them together itself."""
    sizes = (getattr(getattr(loader, "batch_sampler", None), "batch_size", None), loader.batch_size)
    return next((size for size in sizes if isinstance(size, int)), None)


def _samples(loader: Any) -> int | None:
    """How many there are; None where the data set does not say."""
    try:
        return len(loader.dataset)
    except (TypeError, NotImplementedError):
        return None


def _write(result: str, more: dict[str, Any]) -> None:
    """In one step: the process may be ended while it writes."""
    new = Path(f"{result}.new")
    new.write_text(json.dumps({**measured(), **more}))
    new.replace(result)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
