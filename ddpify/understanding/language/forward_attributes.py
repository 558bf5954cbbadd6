"""Attributes of a model that its forward sets and reads again: they are what it has set last.

What an object holds is all that was ever put there. In one call of a forward, ``self.features`` is
what this call has made of its own input, and no other batch's: it stands among the call's names,
as ``self.features``, until something may have changed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.values import Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def note(run: RunState, target: cst.Attribute, owner: Value, new: Value) -> None:
    """Remember what an attribute of the model in progress is set to."""
    if _is_own(run, target, owner):
        run.frame.scope.names[_name(target)] = new


def found(run: RunState, node: cst.Attribute, owner: Value) -> Value | None:
    """What the call in progress has set an attribute to; None where that is not known."""
    if not run.frame.in_forward or not _is_own(run, node, owner):
        return None
    return run.frame.scope.names.get(_name(node))


def forget(run: RunState, receiver: object) -> None:
    """Another method of the same object may set its attributes."""
    if run.frame.in_forward and run.frame.receiver is receiver:
        drop(run.frame.scope.names)


def drop(names: dict[str, Value]) -> None:
    """Take out of names what are attributes."""
    for name in [one for one in names if "." in one]:
        del names[name]


def _is_own(run: RunState, node: cst.Attribute, owner: Value) -> bool:
    receiver = run.frame.receiver
    if receiver is None or not run.frame.in_forward or not isinstance(node.value, cst.Name):
        return False
    return len(owner.atoms) == 1 and owner.atoms[0] is receiver


def _name(node: cst.Attribute) -> str:
    assert isinstance(node.value, cst.Name)
    return f"{node.value.value}.{node.attr.value}"
