"""Numbers of GPUs that are passed on, as in ``Net(0)``, to code that makes a device of them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument

_CHOOSING = ("torch.cuda.set_device", "torch.cuda.device")
_DEEPEST = 4


def passed_numbers(script: Script) -> Iterator[cst.Integer]:
    """The literals of this file that alone are the number of a device elsewhere."""
    for given in _numbers(script):
        if isinstance(given, (cst.Name, cst.Attribute)):
            yield from (
                one
                for one in _literals(script, given, _DEEPEST) or ()
                if one in script.structure.order and not _is_kept(script, one)
            )


def _is_kept(script: Script, literal: cst.Integer) -> bool:
    """``gpu = 0``, which is told where the name is used."""
    return isinstance(script.structure.parents.get(literal), cst.Assign)


def _numbers(script: Script) -> Iterator[cst.BaseExpression]:
    """What numbers a device, in any file of the run."""
    devices = script.calls("torch.device", everywhere=True)
    given = [call.args[-1].value for call in devices if call.args]
    chosen = script.calls(*_CHOOSING, everywhere=True)
    given += [call.args[0].value for call in chosen if call.args]
    for call in script.facts.device_moves:
        moved = argument(call, "device", 0) if isinstance(call, cst.Call) else None
        given += [moved.value] if moved is not None else []
    for one in given:
        yield from _in_text(one) if isinstance(one, cst.FormattedString) else (one,)


def _in_text(text: cst.FormattedString) -> Iterator[cst.BaseExpression]:
    """``f"cuda:{gpu}"``."""
    parts = [one for one in text.parts if isinstance(one, cst.FormattedStringExpression)]
    plain = [one.value for one in text.parts if isinstance(one, cst.FormattedStringText)]
    if len(parts) == 1 and plain[0] in ("cuda:", "xpu:", "npu:", "hpu:"):
        yield parts[0].expression


def _literals(script: Script, node: cst.BaseExpression, depth: int) -> list[cst.Integer] | None:
    """The literals that a name may be; None where it may be anything else."""
    if isinstance(node, cst.Integer):
        return [node]
    if not isinstance(node, (cst.Name, cst.Attribute)) or not depth:
        return None
    edges = script.flow.edges_into(script.control.locations(node))
    given = [one for one in edges if not one.offers]
    found: list[cst.Integer] = []
    for edge in given:
        behind = _literals(script, edge.value, depth - 1) if edge.value is not None else None
        if behind is None or edge.adds:
            return None
        found += behind
    same = len({one.value for one in found}) == 1
    return found if same else None
