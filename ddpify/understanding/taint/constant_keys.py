"""Entries of collections by a key that is written in the source: ``x["key"]``."""

from __future__ import annotations

import libcst as cst


def constant_key(node: cst.BaseExpression) -> str | None:
    """``key`` of ``x["key"]`` and of ``x.get("key")``."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        first = node.args[0].value if node.args and node.func.attr.value == "get" else None
        return str(first.evaluated_value) if isinstance(first, cst.SimpleString) else None
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return None
    inner = node.slice[0].slice
    if isinstance(inner, cst.Index) and isinstance(inner.value, cst.SimpleString):
        return str(inner.value.evaluated_value)
    return None


def entry_in(node: cst.BaseExpression) -> str | None:
    """``key`` of ``x["key"]``, also of ``x["key"].detach()``, which shares its memory."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        same = node.func.attr.value == "detach"
        return entry_in(node.func.value) if same else constant_key(node)
    return constant_key(node)
