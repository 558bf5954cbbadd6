"""Comparison of written files: the same names, written once, checkpoints with the same content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ddpify.verify.compare import causes, earlier, prints
from ddpify.verify.compare.evidence import SMALL
from ddpify.verify.compare.records import Totals
from ddpify.verify.verdict import Cause, Difference, What

TOLERANCE = 1e-6
NOISE = 10
"""Times what rounding changes, that a tensor may differ."""
_TEXT = frozenset({".txt", ".csv", ".tsv", ".json", ".jsonl", ".log", ".md", ".yaml", ".yml"})
_MAX_TEXT = 2 << 20
_DIGITS = re.compile(r"\d+")


def changed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> set[str]:
    """Files that are new or different, from two listings of one copy."""
    return {name for name, state in after.items() if before.get(name) != state}


def compare(
    original: tuple[Path, set[str], Totals],
    converted: tuple[Path, set[str], list[Totals]],
    correction: float = 0.0,
    record: Path | None = None,
    noisy: tuple[Path, set[str], Totals] | None = None,
) -> list[Difference]:
    """Compare what two runs wrote.

    Args:
        original: Working folder, files changed on disk, and record of the one process.
        converted: Working folder, files changed on disk, and the records of the ranks.
        correction: How far a running variance may be off; see ``StepFindings``.
        record: What the original's steps were, to tell the step that a checkpoint is from.
        noisy: The same of the original with rounding-sized noise: numbers may differ by ten times
            what they differ there.
    """
    own_root, own_files, own = original
    root, files, ranks = converted
    pairs, missing, extra = _pair(own_files, files)
    again = dict(_pair(own_files, noisy[1])[0]) if noisy else {}
    found = [_difference(name, f"{name} is not written") for name in missing]
    found += [_difference(name, f"{name} is written, but not by the original") for name in extra]
    for name, other in pairs:
        writers = [rank for rank, record in enumerate(ranks) if other in record.written]
        if len(writers) > 1:
            text = f"{name} is written by {len(writers)} ranks"
            found.append(_difference(name, text, causes.WRITTEN_TWICE))
        saved = next(
            (ranks[rank].saves[other] for rank in writers if other in ranks[rank].saves), None
        )
        if name in own.saves and saved is not None:
            shaken = noisy[2].saves.get(again.get(name, "")) if noisy else None
            found += _checkpoint(name, own.saves[name], saved, correction, shaken, record)
        elif PurePosixPath(name).suffix in _TEXT:
            shaken_text = noisy[0] / again[name] if noisy and name in again else None
            found += _text(name, own_root / name, root / other, shaken_text)
    return found


def _difference(name: str, text: str, cause: Cause | None = None) -> Difference:
    return Difference(What.FILE, text, name=name, cause=cause)


def _pair(own: set[str], other: set[str]) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Pairs of names; those that carry a time or a process number pair by what is left without
    digits."""
    pairs = [(name, name) for name in sorted(own & other)]
    spare: dict[str, list[str]] = {}
    for name in sorted(other - own, reverse=True):
        spare.setdefault(_DIGITS.sub("#", name), []).append(name)
    missing = []
    for name in sorted(own - other):
        alike = spare.get(_DIGITS.sub("#", name), [])
        if alike:
            pairs.append((name, alike.pop()))
        else:
            missing.append(name)
    return pairs, missing, sorted(name for names in spare.values() for name in names)


def _checkpoint(
    name: str,
    own: dict[str, Any],
    other: dict[str, Any],
    correction: float,
    noisy: dict[str, Any] | None,
    record: Path | None,
) -> Iterator[Difference]:
    if set(own) != set(other):
        only = sorted(set(own) - set(other))[:1] + sorted(set(other) - set(own))[:1]
        wrapped = {re.sub(r"(^|/)module\.", r"\1", key) for key in other} == set(own)
        text = f"{name} has other keys, such as {' and '.join(map(repr, only))}"
        yield _difference(name, text, causes.WRAPPED_KEYS if wrapped else None)
        return
    largest = max((leaf[1] for leaf in own.values() if isinstance(leaf, list)), default=0.0)
    for key, value in own.items():
        tolerance = max(TOLERANCE, correction * key.endswith("running_var"))
        noise = NOISE * _distance(value, (noisy or own).get(key, value))
        if not _same(value, other[key], max(SMALL * largest, noise / tolerance), tolerance):
            text = f"{name}: {key} is {_shown(other[key])}; original {_shown(value)}"
            yield _difference(name, text, earlier.cause(other[key], record) if record else None)
            return


def _distance(a: Any, b: Any) -> float:
    """How far two leaves are apart; 0 of what is no tensor, or not a number."""
    if not isinstance(a, list) or not isinstance(b, list):
        return 0.0
    size = max(abs(a[1] - b[1]), abs(a[2] - b[2]))
    return float(size) if size == size else 0.0


def _same(a: Any, b: Any, least: float, tolerance: float) -> bool:
    """Whether two leaves are equal; tensors are measured against ``least`` at least."""
    if isinstance(a, list) and isinstance(b, list):
        scale = max(abs(a[1]), abs(b[1]), least)
        near = max(abs(a[1] - b[1]), abs(a[2] - b[2])) <= tolerance * scale
        return a[0] == b[0] and (near or a[1:] == b[1:] or a[1] != a[1])
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-6) or a != a or a == b
    if isinstance(a, str) and isinstance(b, str):
        return True  # paths and dates
    return bool(a == b)


def _shown(value: Any) -> str:
    return f"of norm {value[1]:.8g}" if isinstance(value, list) else repr(value)


def _text(name: str, own: Path, other: Path, noisy: Path | None) -> Iterator[Difference]:
    if max(own.stat().st_size, other.stat().st_size) > _MAX_TEXT:
        return
    texts = [
        path.read_text(encoding="utf-8", errors="replace") if path else None
        for path in (own, other, noisy)
    ]
    found = prints.compare(texts[0] or "", [texts[1] or ""], texts[2])
    if found.wrong:
        a, b = found.wrong[0]
        yield _difference(name, f"{name}: {b!r}; original {a!r}", causes.PRINTED_NUMBER)
    elif found.missing or found.extra:
        text = f"{name} lacks {len(found.missing)} lines and has {len(found.extra)} others"
        yield _difference(name, text)
