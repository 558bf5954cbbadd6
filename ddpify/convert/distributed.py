"""What to do with a script that is distributed already: lint knows."""

from __future__ import annotations

from pathlib import Path

from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Applicability
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from ddpify.source import Source


def advice(source: Source) -> str:
    """The remedy for such a script: the command that mends it, or that nothing has to be."""
    path = source.path
    found = lint(Document(path, source.data), Settings(root=Path(path).parent)).found
    if not found:
        return "`ddpify lint` finds nothing to mend in it: it runs on many GPUs as it is"
    things = "one thing" if len(found) == 1 else f"{len(found)} things"
    levels = [one.fix.applicability for one in found if one.fix is not None]
    if not levels or max(levels) < Applicability.UNSAFE:
        return f"`ddpify lint {path}` names {things} to mend by hand"
    unsafe = " --unsafe-fixes" if Applicability.UNSAFE in levels else ""
    return (
        f"`ddpify lint --fix{unsafe} {path}` mends {len(levels)} of {things} that it finds;"
        " `--diff` in the place of `--fix` shows how"
    )
