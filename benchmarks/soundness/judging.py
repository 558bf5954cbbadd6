"""What became of a conversion: whether its ranks did what the original does."""

from __future__ import annotations

import io
import math
import zipfile
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch

from benchmarks.soundness.running import Record
from tests.training_runs import assert_same_text, assert_same_value

TOLERANCE = 1e-9
"""Relative and absolute. In float64 right conversions agree to 1e-11; wrong ones differ by 1e-5."""

UNDIVIDED = 0.9
"""From this part of the original's work upward, a rank of two has done all of it."""


class Outcome(Enum):
    """What became of one script."""

    SAME = "same"
    UNDIVIDED = "same, but every rank does all of the work"
    DIFFERENT = "silently different"
    CRASH = "crash at N >= 2"
    REFUSED = "refused"
    BROKEN = "converter raised an exception"
    INVALID = "original does not train"


WRONG = (Outcome.DIFFERENT, Outcome.CRASH, Outcome.BROKEN)


@dataclass(frozen=True)
class Verdict:
    """An outcome; why it is none better; and which ranks it was seen at."""

    outcome: Outcome
    detail: str = ""
    ranks: int = 0


@dataclass(frozen=True)
class Run:
    """One run of a script: what each rank did, and the files that are left, by relative path."""

    records: list[Record | None]
    files: dict[str, bytes]


def original_fails(run: Run) -> str:
    """Why nothing can be learned from an original; empty where it trains."""
    record = run.records[0]
    if record is None:
        return "does not end"
    if record.error:
        return last_line(record.error)
    if len(record.steps) < 2:
        return "fewer than two optimizer steps"
    first, last = record.steps[0][1:], record.steps[-1][1:]
    if not all(np.isfinite(p).all() for p in last):
        return "parameters are not finite"
    if all(np.array_equal(a, b) for a, b in zip(first, last, strict=True)):
        return "no parameter moves"
    return ""


def judged(original: Run, converted: Run) -> Verdict:
    """Compare a conversion's ranks with the one process of the original."""
    size = len(converted.records)
    for rank, record in enumerate(converted.records):
        if record is None and not any(r and r.error for r in converted.records):
            return Verdict(Outcome.CRASH, f"rank {rank} does not end", size)
        if record is not None and record.error and not is_aftermath(record.error):
            return Verdict(Outcome.CRASH, f"rank {rank}: {last_line(record.error)}", size)
    records = [record for record in converted.records if record is not None]
    if len(records) < size or any(record.error for record in records):
        errors = [last_line(record.error) for record in records if record.error]
        return Verdict(Outcome.CRASH, errors[0], size)
    assert original.records[0] is not None
    difference = first_difference(original.records[0], records, original.files, converted.files)
    if difference:
        return Verdict(Outcome.DIFFERENT, difference, size)
    work = original.records[0].elements
    if size == 2 and work and min(record.elements for record in records) >= UNDIVIDED * work:
        return Verdict(Outcome.UNDIVIDED, "", size)
    return Verdict(Outcome.SAME)


def first_difference(
    original: Record, records: list[Record], before: dict[str, bytes], after: dict[str, bytes]
) -> str:
    """In words, what a conversion does differently first; empty where nothing is."""
    for rank, record in enumerate(records):
        if len(record.steps) != len(original.steps):
            return f"rank {rank}: {len(record.steps)} steps, not {len(original.steps)}"
        for number, (one, other) in enumerate(zip(original.steps, record.steps, strict=True), 1):
            distance = largest_distance(one, other)
            if distance:
                return f"rank {rank}, step {number}: parameters differ by {distance:.1e}"
        if rank and record.written:
            return f"rank {rank} writes {record.written[0]}"
    try:
        assert_same_text(original.stdout, records[0].stdout, "printed")
        assert_same_value(contents(before), contents(after), "files")
    except AssertionError as difference:
        return str(difference)
    return ""


def largest_distance(expected: list[Any], actual: list[Any]) -> float:
    """How far two steps are apart; 0 within the tolerance."""
    if len(expected) != len(actual):
        return math.inf
    worst = 0.0
    for one, other in zip(expected, actual, strict=True):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape:
            return math.inf
        if not np.allclose(b, a, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            if np.isnan(a).any() or np.isnan(b).any():
                return math.inf
            worst = max(worst, float(np.abs(a - b).max()))
    return worst


def contents(files: dict[str, bytes]) -> dict[str, Any]:
    """Checkpoints and arrays as objects, other files as text."""
    return {name: content(data) for name, data in files.items()}


def content(data: bytes) -> Any:
    """A checkpoint's object, arrays as tensors where they are numbers, or a file's text."""
    if data.startswith(b"\x93NUMPY"):
        return _comparable(np.load(io.BytesIO(data), allow_pickle=True))
    if not data.startswith(b"PK"):
        return data.decode(errors="replace")
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    if all(name.endswith(".npy") for name in names):
        arrays = np.load(io.BytesIO(data), allow_pickle=True)
        return {name: _comparable(arrays[name]) for name in arrays.files}
    return torch.load(io.BytesIO(data), weights_only=False)


def _comparable(array: np.ndarray[Any, Any]) -> Any:
    return torch.from_numpy(array) if array.dtype.kind in "biufc" else array.tolist()


def last_line(trace: str) -> str:
    """What an exception says."""
    return trace.strip().splitlines()[-1][:300]


def is_aftermath(trace: str) -> bool:
    """Whether a rank failed only because another one was gone."""
    words = last_line(trace).lower()
    return any(word in words for word in ("connection closed", "connection reset", "timed out"))
