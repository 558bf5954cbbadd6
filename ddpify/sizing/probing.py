"""Steps of a script with batches of other sizes, on tensors that take no memory.

A batch of 64 samples becomes one of any number: tensors with 64 rows get as many as are asked for,
with a shape and no values (PyTorch's fake tensors). The script then runs up to its first backward
in a forked process, so that one start of it answers for many sizes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._pytree import tree_map_only

from ddpify.sizing.activations import alive_modules, held_by
from ddpify.sizing.peak import Peak
from ddpify.sizing.steps import Kept


class Probes:
    """Asks standard input for numbers of samples, and answers with bytes on standard output.

    An answer is a line: what a step keeps, or "!" and why that is not known. The script itself
    prints nowhere.
    """

    def __init__(self, samples: int, peak: Peak) -> None:
        self._samples, self._peak = samples, peak
        self._answers = os.dup(sys.stdout.fileno())
        self._serving = True
        self.models: list[torch.Tensor] = []
        """What the models hold, as the step sees it: none of it is an activation."""
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())

    def batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of a loader in the process that tries a step; the first call forks those.

        Where the numbers end, this process does.
        """
        if not self._serving:
            return batches
        first = next(batches)
        for line in sys.stdin:
            if os.fork() == 0:
                self._serving = False
                return iter([self._of(first, int(line))])
            os.wait()
        os._exit(0)

    def _of(self, batch: Any, samples: int) -> Any:
        """The batch with so many samples; from now on no tensor has values."""
        mode: Any = FakeTensorMode(allow_non_fake_inputs=True)
        self.models = [mode.from_tensor(tensor) for tensor in held_by(alive_modules())]
        mode.__enter__()
        peak: Any = self._peak
        peak.start(self.models)
        peak.__enter__()

        def resized(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dim() == 0 or len(tensor) != self._samples:
                return tensor
            shape = (samples, *tensor.shape[1:])
            return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)

        return tree_map_only(torch.Tensor, resized, batch)

    def answer(self, kept: Kept) -> None:
        """What the step with the batch that was asked for keeps."""
        os.write(self._answers, f"{kept}\n".encode())

    def run(self, script: Callable[[], object]) -> None:
        """Run the script, and answer for it where it fails."""
        try:
            script()
            reason = "there is no backward"
        except DataDependentOutputException:
            reason = "it reads a tensor's value before backward, as .item() does"
        except DynamicOutputShapeException:
            reason = "a shape depends on a tensor's values"
        except BaseException as failure:
            reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
        os.write(self._answers, f"!{reason}\n".encode())
        os._exit(1)
