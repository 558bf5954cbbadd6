"""The global batch's number of rows, where the script asks for this rank's."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits, wrapped
from ddpify.understanding.shapes.tensor_sizes import measured
from ddpify.understanding.syntax import code_of


def count_rows(node: cst.BaseExpression, alias: str, edits: Edits, extra: str = "") -> None:
    """``len(x)``, ``x.size(0)`` or ``x.shape[0]`` becomes the size of the global batch."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        rows = measured(updated) if _of_first_dimension(updated) else None
        return wrapped(rows or updated, f"{alias}.global_batch_size", extra)

    edits.change(node, change)


def _of_first_dimension(asked: cst.CSTNode) -> bool:
    """Whether it asks for the first size: ``x.size(1)`` is the rows' where time comes first."""
    if isinstance(asked, cst.Subscript):
        shape = asked.value.func if isinstance(asked.value, cst.Call) else asked.value
        named = isinstance(shape, cst.Attribute) and shape.attr.value in ("shape", "size")
        return named and code_of(asked.slice[0]) == "0"
    assert isinstance(asked, cst.Call)
    method = isinstance(asked.func, cst.Attribute) and asked.args
    return not method or code_of(asked.args[0].value) == "0"


def global_count(size: cst.BaseExpression, alias: str, edits: Edits, extra: str = "") -> None:
    """The global batch's number of rows, in place of an expression for this rank's."""
    if isinstance(size, cst.Subscript) or (isinstance(size, cst.Call) and _asks_rows(size)):
        count_rows(size, alias, edits, extra)
    else:
        edits.wrap(size, f"{alias}.global_batch_size", extra)


def _asks_rows(call: cst.Call) -> bool:
    """Whether a call is ``len(x)`` or ``x.size(...)``."""
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in ("len", "size")


def global_shape(shape: cst.BaseExpression, alias: str, extra: str, edits: Edits) -> None:
    """``x.shape``, ``x.size()``, ``x.size(-2)``, or a name for it, becomes that over all ranks."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        asked = updated.func if isinstance(updated, cst.Call) else updated
        named = isinstance(asked, cst.Attribute) and asked.attr.value in ("shape", "size")
        tensor = asked.value if named and isinstance(asked, cst.Attribute) else updated
        whole = wrapped(tensor, f"{alias}.global_shape", extra)
        if not isinstance(updated, cst.Call) or not updated.args:
            return whole
        assert isinstance(whole, cst.BaseExpression)
        return cst.Subscript(whole, [cst.SubscriptElement(cst.Index(updated.args[0].value))])

    edits.change(shape, change)
