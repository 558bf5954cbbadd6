"""What to do with a script that is distributed already: lint knows."""

from __future__ import annotations

from pathlib import Path

from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Applicability
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from ddpify.source import Source


def advice(source: Source) -> str:
    """The remedy for such a script: what lint finds in it, and the command that fixes it."""
    path = source.path
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
