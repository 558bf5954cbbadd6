"""Starts a script under torchrun, in a copy of its folder, and reads what its ranks measured."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpify.errors import DdpifyError
from ddpify.launching.local import environment, torchrun_here
from ddpify.profiling.scaling import Point, point
from ddpify.profiling.weak import scaled
from ddpify.verify.launch.copies import copy
from ddpify.verify.launch.layout import lay_out


@dataclass(frozen=True)
class Request:
    """What to run: a script, its arguments, and how many steps to measure after the warm-up.

    Attributes:
        trace: The folder for traces of the ranks; None for none.
        weak: The script's option whose value grows with the number of ranks; "" for none.
    """

    script: Path
    args: Sequence[str]
    steps: int
    warm_up: int
    timeout: float
    trace: Path | None = None
    weak: str = ""

    def arguments(self, ranks: int) -> list[str]:
        """The script's own on so many ranks."""
        return scaled(self.args, self.weak, ranks) if self.weak else list(self.args)


def measure(request: Request, ranks: int) -> Point:
    """One run on ``ranks`` processes.

    Raises:
        DdpifyError: The run failed, took too long, or made too few optimizer steps.
    """
    with tempfile.TemporaryDirectory(prefix="ddpify-profile-") as folder:
        layout = lay_out(request.script, request.script, request.args)
        root = copy(layout, Path(folder) / "copy").root
        out = Path(folder) / "out"
        out.mkdir()
        _run(request, _command(request, root / layout.script, out, ranks), root)
        found = point(_records(out, ranks), request.warm_up)
        _keep_traces(request, out, ranks)
    if found is None:
        raise _failed(request, f"fewer than {request.warm_up + 2} optimizer steps", "train longer")
    return found


def _command(request: Request, script: Path, out: Path, ranks: int) -> list[str]:
    steps, trace = str(request.steps + request.warm_up), str(int(request.trace is not None))
    inside = ["-m", "ddpify.profiling.inside", str(out), steps, trace]
    return [*torchrun_here(ranks), *inside, str(script), *request.arguments(ranks)]


def _keep_traces(request: Request, out: Path, ranks: int) -> None:
    """A folder for each number of ranks, with a file for each rank; none where steps ran out."""
    for rank in range(ranks):
        traced = out / f"trace{rank}.json"
        if request.trace is not None and traced.is_file():
            folder = request.trace / f"{ranks}-ranks"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(traced, folder / f"rank{rank}.json")


def _run(request: Request, command: list[str], folder: Path) -> None:
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            code = process.wait(request.timeout)
        except subprocess.TimeoutExpired:
            remedy = "give --timeout more seconds, or --steps fewer"
            raise _failed(request, f"not done after {request.timeout:.0f} s", remedy) from None
        finally:
            process.terminate()  # torchrun ends its ranks with it
            process.wait()
        if code:
            errors.seek(0)
            raise _failed(request, *_reason(errors.read()))


def _reason(errors: str) -> tuple[str, str]:
    """The first line that names an exception, and what to do."""
    lines = [line.strip() for line in errors.splitlines() if "Error" in line]
    return lines[0] if lines else "it failed", "run it under torchrun first: does it train?"


def _records(out: Path, ranks: int) -> list[dict[str, Any]]:
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def _failed(request: Request, reason: str, remedy: str) -> DdpifyError:
    return DdpifyError(f"cannot profile: {reason}", path=request.script, remedy=remedy)
