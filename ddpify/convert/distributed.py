"""What to do with a script that is distributed already: lint knows."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Applicability
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from ddpify.source import Source
from ddpify.understanding.searching import repository, roots_of
from ddpify.understanding.text_imports import local_files

_MOST_FILES = 5  # that are linted at once


def advice(source: Source) -> str:
    """The remedy for such a script: what lint finds in it, and the command that fixes it.

    For a script of a larger project, which would take long to lint, the command alone.
    """
    path = source.path
    if _has_many_files(source):
        return f"run `ddpify lint {path}` instead"
    found = lint(Document(path, source.data), Settings(root=Path(path).parent)).found
    if not found:
        return "`ddpify lint` finds nothing in it"
    count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    levels = [one.fix.applicability for one in found if one.fix is not None]
    if not levels:
        return f"`ddpify lint {path}` finds {count}"
    unsafe = " --unsafe-fixes" if Applicability.UNSAFE in levels else ""
    fixed = "" if len(levels) == len(found) else f" {len(levels)} of them"
    fixed = fixed or (" it" if len(found) == 1 else " all of them")
    return (
        f"`ddpify lint {path}` finds {count}; `ddpify lint --fix{unsafe} {path}` fixes{fixed}, and"
        " `--diff` instead of `--fix` shows the changes"
    )


def _has_many_files(source: Source) -> bool:
    entry = Path(source.path).resolve()
    roots = [str(root) for root in roots_of([entry], repository(entry))]
    try:
        return any(True for _ in islice(local_files([str(entry)], roots), _MOST_FILES, None))
    except OSError:
        return True
