"""A baseline lets an old code base start clean: known findings are counted by file and rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ddpify.lint.config import usage
from ddpify.lint.diagnostics import Diagnostic
from ddpify.source import write_atomically

_VERSION = 1


def write(path: Path, found: Iterable[Diagnostic]) -> None:
    """Write the number of findings of each rule in each file."""
    files: dict[str, Counter[str]] = {}
    for one in found:
        files.setdefault(_relative(one.path, path), Counter())[one.code] += 1
    table = {
        "version": _VERSION,
        "files": {f: dict(sorted(c.items())) for f, c in sorted(files.items())},
    }
    write_atomically(path, (json.dumps(table, indent=2) + "\n").encode())


def remove_known(path: Path, found: list[Diagnostic]) -> list[Diagnostic]:
    """The findings beyond the baseline: all of a rule in a file, once there are more than before.

    Lines are not compared, since they move with every edit.

    Raises:
        DdpifyError: With exit code 2 where the baseline cannot be read.
    """
    known = _read(path)
    now = Counter((_relative(one.path, path), one.code) for one in found)
    return [
        one
        for one in found
        if now[key := (_relative(one.path, path), one.code)] > known.get(key, 0)
    ]


def _read(path: Path) -> dict[tuple[str, str], int]:
    try:
        table = json.loads(path.read_text("utf-8"))
        files = table["files"]
        return {(f, code): int(n) for f, counts in files.items() for code, n in counts.items()}
    except FileNotFoundError as error:
        raise usage(
            "no such baseline", path=path, remedy="make it with --write-baseline"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise usage(
            "this is not a baseline", path=path, remedy="make it with --write-baseline"
        ) from error


def _relative(name: str, baseline: Path) -> str:
    """A file's name as seen from the baseline's folder, the same on every machine."""
    path, folder = Path(name).absolute(), baseline.absolute().parent
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
