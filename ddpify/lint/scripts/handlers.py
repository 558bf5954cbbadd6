"""What the handlers of errors catch, and whether a rank goes on behind them."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted, statements

_CAUGHT = frozenset({"RuntimeError", "Exception", "BaseException", "torch.cuda.OutOfMemoryError",
                     "torch.OutOfMemoryError"})  # fmt: skip
_ENDS = ("sys.exit", "os._exit", "builtins.exit", "builtins.quit", "os.kill", "os.abort")


def catches(handler: cst.ExceptHandler) -> bool:
    """Whether a handler takes what a step may raise."""
    if handler.type is None:
        return True
    kinds = [handler.type]
    if isinstance(handler.type, cst.Tuple):
        kinds = [element.value for element in handler.type.elements]
    return any(dotted(kind) in _CAUGHT for kind in kinds)


def suppresses(script: Script, node: cst.BaseExpression) -> bool:
    """Whether ``with contextlib.suppress(RuntimeError):`` takes what a step may raise."""
    return (
        isinstance(node, cst.Call)
        and "contextlib.suppress" in script.names(node.func)
        and any(dotted(one.value) in _CAUGHT for one in node.args)
    )


def stops(script: Script, attempt: cst.Try, handler: cst.ExceptHandler) -> bool:
    """Whether the handler raises, ends the process or leaves the training on every path, agrees
    with the others, or makes the step itself.
    """
    if script.collectives(handler.body) or script.trains(handler.body):
        return True
    on = (cst.Continue,) if script.structure.loops(attempt) else (cst.Continue, cst.Return)
    goes_on = any(isinstance(one, on) for one in walk(handler.body))
    return not goes_on and _ends(script, statements(handler.body))


def _ends(script: Script, body: Sequence[cst.CSTNode]) -> bool:
    """Whether no path goes on behind some statements."""
    return any(_ends_at(script, one) for one in body)


def _ends_at(script: Script, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.SimpleStatementLine):
        return any(
            isinstance(one, (cst.Raise, cst.Return, cst.Break))
            or (isinstance(one, cst.Expr) and _ends_process(script, one.value))
            for one in node.body
        )
    if isinstance(node, cst.With):
        return _ends(script, statements(node.body))
    if not isinstance(node, cst.If) or node.orelse is None:
        return False
    other = node.orelse
    ends = _ends_at(script, other) if isinstance(other, cst.If) else False
    if isinstance(other, cst.Else):
        ends = _ends(script, statements(other.body))
    return ends and _ends(script, statements(node.body))


def _ends_process(script: Script, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and bool(script.names(node.func) & set(_ENDS))
