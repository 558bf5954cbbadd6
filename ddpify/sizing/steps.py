"""Asks a script, started once, what a step with a batch of any size keeps."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAUNCH = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
WORKSPACE = 32 << 20
"""Bytes of cuBLAS's workspace on the largest GPUs, where none is there to ask (PyTorch's notes on
CUDA, ``CUBLAS_WORKSPACE_CONFIG``)."""
_CLOSE = 0.01
"""The part by which a step without memory may differ from a real one."""


@dataclass(frozen=True)
class Kept:
    """Bytes of one step.

    Attributes:
        activations: What autograd keeps for backward.
        peak: What there is at the step's peak beside parameters, buffers and optimizer states, less
            all gradients: those that are not there yet make room. None where backward failed.
    """

    activations: int
    peak: int | None

    @classmethod
    def read(cls, line: str) -> Kept | None:
        """From ``str(kept)``; None for another line."""
        parts = line.split()
        numbers = [int(part) for part in parts if part.lstrip("-").isdecimal()]
        return cls(numbers[0], numbers[1] if numbers[1:] else None) if numbers else None

    def __str__(self) -> str:
        return f"{self.activations} {'?' if self.peak is None else self.peak}"


class Steps:
    """Steps without memory, each tried once.

    Attributes:
        failure: Why there are none, or no more; "" where there are.
    """

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        """``command``: see ``child``. ``timeout``: seconds for all steps together."""
        self._command, self._left = command, timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, Kept] = {}
        self.failure = "" if hasattr(os, "fork") else "this system has no fork()"

    @property
    def tried(self) -> Mapping[int, Kept]:
        """Samples of the batches that were tried, and what a step kept."""
        return dict(sorted(self._known.items()))

    def agree(self, samples: int, measured: int) -> bool:
        """Whether a step keeps as many activations as were measured with real tensors."""
        found = self.kept(samples)
        if found is not None and abs(found.activations - measured) > _CLOSE * measured:
            without = found.activations
            self.failure = f"it keeps {without} B without memory, and {measured} B with it"
        return not self.failure

    def kept(self, samples: int) -> Kept | None:
        """What a step with so many samples keeps; None after a failure."""
        if samples not in self._known and not self.failure:
            answer = self._ask(samples)
            found = Kept.read(answer) if not answer.startswith("!") else None
            if found is not None:
                self._known[samples] = found
            else:
                self.failure = answer.removeprefix("!") or "the script ended before its first batch"
        return self._known.get(samples)

    def close(self) -> None:
        """End the script."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _ask(self, samples: int) -> str:
        """The line that comes back; "" where the script has ended."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{samples}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            return ""
        begin = time.monotonic()
        ready, _, _ = select.select([process.stdout], [], [], self._left)
        self._left -= time.monotonic() - begin
        return process.stdout.readline().decode().strip() if ready else "!it takes too long"

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            # Neither OpenMP's threads nor CUDA survive a fork.
            env={**environment(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def environment() -> dict[str, str]:
    """This process's environment without a launcher's variables, with this ddpify importable."""
    kept = {name: value for name, value in os.environ.items() if name not in _LAUNCH}
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path}
