"""Run a training script as one process or as ranks, and assert that two runs trained the same."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

WORKER = Path(__file__).with_name("training_worker.py")
ROOT = WORKER.parent.parent

TOLERANCE = 1e-9
"""Relative and absolute. In float64 right conversions agree to 1e-11; wrong ones differ by 1e-5."""

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Rank:
    """What one process did.

    Attributes:
        status: Exit status; None when it was hanging and was killed.
        steps: After each optimizer step its parameters, learning rates and optimizer's number.
        elements: Elements of the inputs of all layers in training mode, summed.
        written: Files of the run's folder that it opened for writing.
    """

    status: int | None
    stdout: str
    stderr: str
    steps: list[dict[str, Any]]
    elements: int
    written: list[str]


@dataclass(frozen=True)
class Training:
    """One run: its ranks, and the content of the files that it left, by relative path."""

    ranks: list[Rank]
    files: dict[str, Any]


class TrainingRuns:
    """Runs scripts in ranks forked from one warm server (see training_worker)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._server = subprocess.Popen(
            [sys.executable, str(WORKER), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )

    def close(self) -> None:
        self._server.communicate()

    def run(
        self,
        script: Path,
        world_size: int | None = None,
        *,
        beside: Path | None = None,
        project: Path | None = None,
        args: Sequence[str] = (),
        cuda_on_cpu: bool = False,
        deadline: float = 120.0,
        double: bool = True,
    ) -> Training:
        """Run ``script`` in a folder of its own, with the .py files of ``beside`` next to it.

        Args:
            script: The script; its folder is not touched.
            world_size: Ranks under torchrun's variables; None is a plain ``python script``.
            beside: Folder of the modules that the script imports.
            project: Folder with the script in it, to be copied as a whole instead.
            args: The script's arguments.
            cuda_on_cpu: Redirect CUDA to the CPU.
            deadline: Seconds until ranks that still run are killed.
            double: Train in float64, else in float32.
        """
        job = self._job(script, world_size, beside, project, args, cuda_on_cpu, deadline)
        job["double"] = double
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return _read(job, json.loads(self._server.stdout.readline()))

    def torchrun(self, script: Path, world_size: int, *, beside: Path | None = None) -> Training:
        """As ``run``, but by the real torchrun (many seconds)."""
        job = self._job(script, world_size, beside, None, (), False, 0.0)
        job_file = Path(job["records"], "job.json")
        job_file.write_text(json.dumps(job))
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*torchrun, f"--nproc-per-node={world_size}", str(WORKER), "job", str(job_file)],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return _read(job, [0] * world_size)

    def _job(
        self,
        script: Path,
        world_size: int | None,
        beside: Path | None,
        project: Path | None,
        args: Sequence[str],
        cuda_on_cpu: bool,
        deadline: float,
    ) -> dict[str, Any]:
        """Make the run's folders, and describe it to the worker."""
        self._count += 1
        folder = self._folder / f"run-{self._count}"
        records = self._folder / f"records-{self._count}"
        records.mkdir()
        if project is not None:
            shutil.copytree(project, folder)
        else:
            folder.mkdir()
            for module in (beside or script.parent).glob("*.py"):
                shutil.copy(module, folder)
            shutil.copy(script, folder)
        return {
            "script": str(folder / (script.relative_to(project) if project else script.name)),
            "folder": str(folder),
            "records": str(records),
            "world_size": world_size,
            "args": list(args),
            "cuda_on_cpu": cuda_on_cpu,
            "deadline": deadline,
            "double": True,
        }


@contextlib.contextmanager
def training_runs(folder: Path) -> Iterator[TrainingRuns]:
    """A server, ended when done."""
    runs = TrainingRuns(folder)
    try:
        yield runs
    finally:
        runs.close()


def _environment() -> dict[str, str]:
    """Without torchrun's variables of whoever started the tests; with the checkout importable."""
    names = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _read(job: dict[str, Any], statuses: list[int | None]) -> Training:
    """Collect what the ranks recorded, and the files."""
    records, folder = Path(job["records"]), Path(job["folder"])
    ranks = [_read_rank(records, rank, status) for rank, status in enumerate(statuses)]
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"})
    return Training(ranks, {str(path.relative_to(folder)): _content(path) for path in paths})


def _read_rank(records: Path, rank: int, status: int | None) -> Rank:
    path = records / f"record-{rank}.pt"
    record = {"steps": [], "elements": 0, "written": []}
    if path.exists():
        record = torch.load(path, weights_only=True)
    stdout, stderr = (_text(records / f"{name}-{rank}.txt") for name in ("stdout", "stderr"))
    return Rank(status=status, stdout=stdout, stderr=stderr, **record)  # type: ignore[arg-type]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _content(path: Path) -> Any:
    """A checkpoint's object, or a text file's text."""
    data = path.read_bytes()
    if data.startswith(b"PK"):
        return torch.load(path, weights_only=False)
    return data.decode()


def assert_same_training(original: Training, converted: Training, *, work: bool = True) -> None:
    """Assert that all ranks of ``converted`` trained as the one process of ``original`` did.

    The same parameters and learning rates after each optimizer step on every rank, the work shared
    between them, the same output from rank 0 alone, and the same files written by rank 0 alone.
    With ``work`` False layers may compute twice.

    Raises:
        AssertionError: With the first difference.
    """
    assert_succeeded(original)
    assert_succeeded(converted)
    assert_something_moved(original)
    for rank, recorded in enumerate(converted.ranks):
        assert_same_steps(original.ranks[0].steps, recorded.steps, f"rank {rank}")
    if work:
        assert_work_is_shared(original, converted)
    assert_same_text(original.ranks[0].stdout, converted.ranks[0].stdout, "stdout of rank 0")
    for rank, recorded in enumerate(converted.ranks[1:], 1):
        assert recorded.stdout == "", f"rank {rank} prints: {recorded.stdout!r}"
        assert not recorded.written, f"rank {rank} writes {recorded.written}"
    assert_same_value(original.files, converted.files, "files")


def assert_succeeded(training: Training) -> None:
    for rank, recorded in enumerate(training.ranks):
        assert recorded.status == 0, f"rank {rank} ended with {recorded.status}:\n{recorded.stderr}"


def assert_something_moved(training: Training) -> None:
    """A run without two different sets of parameters would be the same as any other."""
    steps = training.ranks[0].steps
    assert len(steps) > 1, "fewer than two optimizer steps"
    shapes = [[p.shape for p in step["parameters"]] for step in steps]
    same_optimizer = [step for step, found in zip(steps, shapes, strict=True) if found == shapes[0]]
    first, last = same_optimizer[0]["parameters"], same_optimizer[-1]["parameters"]
    moved = [not torch.equal(a, b) for a, b in zip(first, last, strict=True)]
    assert any(moved), "no parameter moves"


def assert_same_steps(
    expected: list[dict[str, Any]], actual: list[dict[str, Any]], where: str
) -> None:
    assert len(expected) == len(actual), f"{where}: {len(actual)} steps, not {len(expected)}"
    for number, (one, other) in enumerate(zip(expected, actual, strict=True), 1):
        assert_same_value(one, other, f"{where}: step {number}")


def assert_work_is_shared(original: Training, converted: Training) -> None:
    """Each rank's layers see about 1/N of the data; short batches and ghosts leave some slack."""
    share = 1 / len(converted.ranks)
    for rank, recorded in enumerate(converted.ranks):
        ratio = recorded.elements / original.ranks[0].elements
        assert abs(ratio - share) < 0.1, f"rank {rank} did {ratio:.0%} of the work"


def assert_same_value(expected: Any, actual: Any, where: str) -> None:
    """Compare nested containers, tensors, modules and numbers; types and order of keys too."""
    assert type(expected) is type(actual), f"{where}: {type(actual)}, not {type(expected)}"
    if isinstance(expected, torch.Tensor):
        assert_same_tensor(expected, actual, where)
    elif isinstance(expected, torch.nn.Module):
        assert_same_value(expected.state_dict(), actual.state_dict(), where)
    elif isinstance(expected, dict):
        assert list(expected) == list(actual), f"{where}: {list(actual)}, not {list(expected)}"
        for key, value in expected.items():
            assert_same_value(value, actual[key], f"{where}: {key}")
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual), f"{where}: length {len(actual)}, not {len(expected)}"
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            assert_same_value(one, other, f"{where}[{index}]")
    elif isinstance(expected, float):
        assert _close(expected, actual), f"{where}: {actual}, not {expected}"
    elif isinstance(expected, str):
        assert_same_text(expected, actual, where)
    else:
        assert expected == actual, f"{where}: {actual}, not {expected}"


def assert_same_tensor(expected: torch.Tensor, actual: torch.Tensor, where: str) -> None:
    kinds = [(t.shape, t.dtype, t.device, t.requires_grad) for t in (expected, actual)]
    assert kinds[0] == kinds[1], f"{where}: {kinds[1]}, not {kinds[0]}"
    if not torch.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        distance = (actual - expected).abs().max().item()
        raise AssertionError(f"{where}: differs by {distance:.1e}")


def assert_same_text(expected: str, actual: str, where: str) -> None:
    """The same lines, where a printed decimal may differ by rounding in its last place."""
    lines, others = expected.splitlines(), actual.splitlines()
    for number, (line, other) in enumerate(zip(lines, others, strict=False), 1):
        assert _same_line(line, other), f"{where}, line {number}: {other!r}, not {line!r}"
    assert len(lines) == len(others), f"{where}: {len(others)} lines, not {len(lines)}"


def _same_line(expected: str, actual: str) -> bool:
    if expected == actual:
        return True
    numbers, others = _NUMBER.findall(expected), _NUMBER.findall(actual)
    return _NUMBER.split(expected) == _NUMBER.split(actual) and all(
        map(_same_number, numbers, others)
    )


def _same_number(expected: str, actual: str) -> bool:
    """Equal as printed, or one unit apart in the last of at least three decimals."""
    decimals = len(re.split("[eE]", expected)[0].partition(".")[2])
    if expected == actual or decimals < 3:
        return expected == actual
    unit = 1.01 * 10.0**-decimals
    one, other = float(expected), float(actual)
    return _close(one, other) or ("e" not in expected.lower() and abs(one - other) <= unit)


def _close(expected: float, actual: float) -> bool:
    both_nan = math.isnan(expected) and math.isnan(actual)
    return both_nan or math.isclose(expected, actual, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
