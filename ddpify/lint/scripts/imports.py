"""The modules that a file imports, with the statements that do."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import dotted


def imported_modules(script: Script) -> Iterator[tuple[cst.Import | cst.ImportFrom, str]]:
    """Every import of a library's module by its full name, in source order."""
    for part in script.structure.all(cst.Import, cst.ImportFrom):
        if isinstance(part, cst.Import):
            yield from ((part, dotted(alias.name) or "") for alias in part.names)
        elif part.module is not None and not part.relative:
            yield part, dotted(part.module) or ""
