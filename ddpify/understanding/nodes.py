"""Nodes of trees as keys and as things to be told apart: both is asked all the time.

LibCST hashes and compares them by identity, but hashes in Python: a twentieth of the time of
understanding a script. Python's own hash of an object says the same. Its classes are abstract ones,
which :func:`isinstance` asks in Python too, for what might be registered with them: nothing is.
"""

from __future__ import annotations

import libcst as cst


class _NodeType(type(cst.CSTNode)):  # type: ignore[misc]
    """The type of the nodes' classes, with Python's own answers about what is one of them."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def use_own_answers() -> None:
    """Let all kinds of nodes have Python's own hash and its own answers to ``isinstance``."""
    todo: list[type] = [cst.CSTNode]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        kind.__hash__ = object.__hash__  # type: ignore[method-assign, assignment]
        kind.__class__ = _NodeType
