"""Nodes of trees as keys: they are looked up in dictionaries all the time.

LibCST hashes and compares them by identity, but hashes in Python: a twentieth of the time of
understanding a script. Python's own hash of an object says the same.
"""

from __future__ import annotations

import libcst as cst


def hash_by_identity() -> None:
    """Let all kinds of nodes have Python's own hash."""
    todo: list[type] = [cst.CSTNode]
    while todo:
        kind = todo.pop()
        kind.__hash__ = object.__hash__  # type: ignore[method-assign, assignment]
        todo += kind.__subclasses__()
