"""Fixes that name a module where the name stands for something else."""

from __future__ import annotations

import re

import libcst as cst

from ddpify.lint.diagnostics import Fix
from ddpify.lint.scripts.script import Script
from ddpify.understanding.taint.scopes import scopes_of

_OWNERS = re.compile(r"(?<![\w.\"'])([A-Za-z_]\w*)\s*\.")


def usable(script: Script, fix: Fix | None) -> Fix | None:
    """A fix, but for one with ``dist.get_rank()`` in a function whose own ``dist`` is a number."""
    if fix is None:
        return None
    named = [(edit.start, {*_OWNERS.findall(edit.text)}) for edit in fix.edits]
    if not any(names for _, names in named):
        return fix
    local = scopes_of(script.structure).local
    return None if any(names & _bound_at(script, at, local) for at, names in named) else fix


def _bound_at(script: Script, at: int, local: dict[cst.CSTNode, set[str]]) -> set[str]:
    """The names that the functions around a place of the text bind."""
    found: set[str] = set()
    for function, names in local.items():
        start, end = script.positions.offsets(function)
        if start <= at <= end:
            found |= names
    return found
