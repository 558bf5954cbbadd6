"""A process of its own that runs a script up to its first backward, and measures what it holds.

``python -m ddpify.sizing.child RESULT PRECISION BATCH SCRIPT ARGUMENTS...``: models and optimizers
are there when the script asks a loader for a batch, and activations when it calls ``backward``; it
ends then. BATCH is what loaders' batches are cut to, as in 16:8 for those of 16, or "" for none.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import runpy
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from ddpify.runtime.blocks import repeated_blocks
from ddpify.runtime.memory import footprint
from ddpify.sizing.activations import Activations


def main(result: str, precision: str, batch: str, script: str, arguments: list[str]) -> None:
    """Run the script up to its first backward, in float32 or under autocast."""
    step = _FirstStep(result, *map(int, batch.split(":") if batch else ()))
    step.watch()
    if precision != "float32":
        autocast: Any = torch.autocast("cpu", dtype=getattr(torch, precision))
        autocast.__enter__()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
    step.finish()


class _FirstStep:
    """Measures when the first batch is asked for, and ends the process at the first backward.

    The former is kept where the step fails, or takes too long.
    """

    def __init__(self, result: str, whole: int = 0, cut: int = 0) -> None:
        self.result, self.whole, self.cut = result, whole, cut
        self.activations = Activations()
        self.found: dict[str, int | None] = {}

    def watch(self) -> None:
        """Hook loaders and autograd of this process."""
        follow: Any = DataLoader.__iter__

        def asked(loader: Any) -> Any:
            self._batch(loader)
            return follow(loader)

        DataLoader.__iter__ = asked  # type: ignore[method-assign]
        torch.autograd.backward = self._backward
        self.activations.watch()

    def _batch(self, loader: Any) -> None:
        """The last loader before backward counts: others may have been read for statistics."""
        first = not self.found
        sampler: Any = getattr(loader, "batch_sampler", None)
        if self.cut and getattr(sampler, "batch_size", None) == self.whole:
            sampler.batch_size = self.cut
        sizes = (getattr(sampler, "batch_size", None), loader.batch_size)
        size = next((size for size in sizes if isinstance(size, int)), None)
        self.found["batch"] = size and min(size, _samples(loader) or size)
        if first:
            _write(self.result, self.found)

    def _backward(self, *_: Any, **__: Any) -> NoReturn:
        """In place of ``torch.autograd.backward``, whose graph is there while it is called."""
        alive = [item for item in gc.get_objects() if isinstance(item, nn.Module)]
        self.found["activations"] = self.activations.bytes(alive)
        self.finish()

    def finish(self) -> NoReturn:
        """Write what there is, and end the process at once."""
        _write(self.result, self.found)
        sys.stdout.flush()
        os._exit(0)


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


def measured() -> dict[str, Any]:
    """Models that optimizers step, and what they hold: see ``measuring.Measurement``."""
    alive = [item for item in gc.get_objects() if isinstance(item, (nn.Module, Optimizer))]
    optimizers = [item for item in alive if isinstance(item, Optimizer)]
    ratios: dict[nn.Parameter, float] = {}
    guessed = []
    for optimizer in optimizers:
        try:
            ratios |= state_ratios(optimizer)
        except Exception as error:  # any optimizer may be met here
            guessed.append(f"{type(optimizer).__name__} ({type(error).__name__}: {error})")
            ratios |= dict.fromkeys(_parameters(optimizer), 2.0)
    models = _trained_roots((m for m in alive if isinstance(m, nn.Module)), ratios)
    pieces, buffers, units = [], 0, 0
    for model in models:
        blocks = repeated_blocks(model)
        held = footprint(model, blocks, ratios)
        buffers += held.buffers
        for piece in held.pieces:
            unit = piece.unit + units if piece.unit else 0
            pieces.append([piece.rows, piece.row_bytes, unit, piece.trained, piece.states])
        units += len(blocks)
    return {
        "pieces": pieces,
        "buffers": buffers,
        "models": [type(model).__name__ for model in models],
        "optimizers": [type(optimizer).__name__ for optimizer in optimizers],
        "guessed": guessed,
        "device_memory": _device_memory(),
    }


def state_ratios(optimizer: Optimizer) -> dict[nn.Parameter, float]:
    """Bytes of each parameter's states as a multiple of its own, from a step without memory."""
    twin: Any = copy.copy(optimizer)
    twin.state = defaultdict(dict)
    twin.param_groups = [
        {**group, "params": [_on_meta(p) for p in group["params"]], "foreach": False, "fused": None}
        for group in optimizer.param_groups
    ]
    twin.step()
    return {
        parameter: _size(twin.state[own].values()) / max(_size([parameter]), 1)
        for parameter, own in zip(_parameters(optimizer), _parameters(twin), strict=True)
    }


def _on_meta(parameter: torch.Tensor) -> nn.Parameter:
    made = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    made.grad = torch.empty_like(made) if parameter.requires_grad else None
    return made


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _size(values: Iterable[Any]) -> int:
    """Bytes of the tensors among some values, scalars (counts of steps) aside."""
    tensors = (value for value in values if isinstance(value, torch.Tensor) and value.dim())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _trained_roots(modules: Iterable[nn.Module], ratios: dict[nn.Parameter, float]) -> list[Any]:
    """The whole models that hold a parameter of an optimizer."""
    every = list(modules)
    inner = {child for module in every for child in module.children()}
    return [m for m in every if m not in inner and any(p in ratios for p in m.parameters())]


def _device_memory() -> int | None:
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.mem_get_info()[1])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
