"""What a script does in place of joining its process group: ``if args.compare: ...; return``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import leaves
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control


def ends_before_group(control: Control, node: cst.CSTNode) -> bool:
    """Whether each way to a node leaves the script before the group starts, or is refused where
    models are wrapped.
    """
    return control.holds_on_every_way(
        node, lambda one: _leaves_first(control, one) or _is_refused_to_ranks(control, one)
    )


def _leaves_first(control: Control, node: cst.CSTNode) -> bool:
    """Whether a block that returns stands around a node, above all that starts the group."""
    structure = control.script.structure_of(node)
    function = structure.function(node)
    if function is None:
        return False
    ends = [
        below
        for above, below in structure.blocks(node)
        if isinstance(above, cst.If)
        and below is above.body
        and leaves(above.body)
        and not isinstance(_last(above.body), (cst.Continue, cst.Break))
    ]
    starts = [
        one for one in structure.inside(function, cst.Call) if ends and _starts_group(control, one)
    ]
    first = min((structure.order[one] for one in starts), default=-1)
    return structure.order[node] < first


def _starts_group(control: Control, call: cst.Call) -> bool:
    """Whether a call starts the group, in a function that it runs perhaps."""
    script = control.script
    if INIT_GROUP in script.names(call.func):
        return True
    functions = [one.node for one in called(script.facts, call)]
    return any(
        isinstance(inner, cst.Call) and INIT_GROUP in script.names(inner.func)
        for one in functions
        for inner in script.reached(one)
    )


def _is_refused_to_ranks(control: Control, node: cst.CSTNode) -> bool:
    """``if args.distributed: raise ...`` above a node, where that is when models are wrapped."""
    wrapping = {
        code_of(guard.test)
        for wrap in control.script.wraps
        for guard in control.guards(wrap.site.node)
        if guard.positive
    }
    return any(
        one.left_early
        and not one.positive
        and code_of(one.test) in wrapping
        and isinstance(one.statement, cst.If)
        and isinstance(_last(one.statement.body), cst.Raise)
        for one in control.guards(node)
    )


def _last(body: cst.BaseSuite) -> cst.CSTNode | None:
    """The last statement of a block."""
    last = body.body[-1] if body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
