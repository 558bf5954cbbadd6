"""The options of ``ddpify lint``, and a reader for the plain ones.

Pre-commit and editors start the command for every change, and typer costs more than linting a small
file does. What this reader does not understand is left to typer, which also writes the help and the
messages about wrong usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from ddpify.records import record

_SHORT = {"-q": "quiet", "-j": "jobs", "-o": "output_file"}


@record
class Options:
    """The options of the command line, as they are given."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    extend_select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    extend_exclude: Sequence[str] = ()
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    output_format: str = "full"
    output_file: Path | None = None
    statistics: bool = False
    exit_zero: bool = False
    strict: bool = False
    stdin_filename: str | None = None
    force_exclude: bool = False
    baseline: Path | None = None
    write_baseline: bool = False
    config: Path | None = None
    no_cache: bool = False
    jobs: int | None = None
    quiet: bool = False


def read(arguments: Sequence[str]) -> tuple[list[Path], Options] | None:
    """Paths and options of a plain command line; None where typer must look at it."""
    kinds = {field.name: str(field.type) for field in fields(Options)}
    given: dict[str, object] = {}
    paths: list[Path] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            paths.append(Path(word))
            continue
        name, equals, text = word.partition("=")
        field = _SHORT.get(name) or name.removeprefix("--").replace("-", "_")
        kind = kinds.get(field)
        if kind is None or (not name.startswith("--") and (equals or name not in _SHORT)):
            return None
        if kind == "bool":
            if equals:
                return None
            given[field] = True
            continue
        if not equals and not rest:
            return None
        if not _take(given, field, kind, text if equals else rest.pop(0)):
            return None
    return paths, Options(**given)  # type: ignore[arg-type]


def _take(given: dict[str, object], field: str, kind: str, text: str) -> bool:
    """Note the value of an option; whether it can be one."""
    if kind.startswith("Sequence"):
        known = given.get(field, ())
        assert isinstance(known, tuple)
        given[field] = (*known, text)
    elif kind.startswith("Path"):
        given[field] = Path(text)
    elif kind.startswith("int"):
        if not text.isdigit():
            return False
        given[field] = int(text)
    else:
        given[field] = text
    return True
