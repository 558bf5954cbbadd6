"""Folders that a repository holds: a checkout has them, so that nobody makes them."""

from __future__ import annotations

import os
from pathlib import Path

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.path_objects import PATH
from ddpify.understanding.texts import folders_above

_JOINS = frozenset({"os.path.join", PATH})
_DEEP = 8  # from one name to the next


def is_held(script: Script, folder: cst.BaseExpression) -> bool:
    """Whether a path is that of a folder in which git knows a file."""
    text = _text(script, folder, _DEEP)
    if not text or os.path.isabs(text):
        return False
    above = [*folders_above(script.project.entry.path)]
    root = above[-1]
    held = {one for folders in script.held.values() for one in folders}
    places = (Path(os.path.normpath(one / text)) for one in above)
    return any(one.relative_to(root).as_posix() in held for one in places if root in one.parents)


def _text(script: Script, node: cst.BaseExpression, depth: int) -> str | None:
    """``"out"``, ``os.path.join("out", "logs")``, also by a name that is set once."""
    known = script.value(node).constant()
    if isinstance(known, str) or depth == 0:
        return known if isinstance(known, str) else None
    if isinstance(node, cst.Call) and script.names(node.func) & _JOINS:
        parts = [_text(script, one.value, depth - 1) for one in node.args]
        known_parts = [one for one in parts if one is not None]
        return os.path.join(*known_parts) if parts and known_parts == parts else None
    if isinstance(node, (cst.Name, cst.Attribute)):
        edges = script.flow.edges_into(script.control.locations(node))
        sure = len(edges) == 1 and not (edges[0].adds or edges[0].offers)
        if sure and edges[0].value is not None:
            return _text(script, edges[0].value, depth - 1)
    return None
