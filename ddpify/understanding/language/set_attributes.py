"""Attributes that a model's forward or constructor sets and reads again: what it has set last.

What an object holds is all that was ever put there. In one call of a forward, ``self.features`` is
what this call has made of its own input, and no other batch's; in a constructor, what stands behind
``self.width = width`` reads this width, and none that is set further down. So it stands among the
call's names, as ``self.features``, until something may have changed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.values import Class, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.frames import Frame
    from ddpify.understanding.run_state import RunState


def note(run: RunState, target: cst.Attribute, owner: Value, new: Value) -> None:
    """Remember what an attribute of the model in progress is set to."""
    if _is_own(run.frame, target, owner):
        run.frame.scope.names[_name(target)] = new


def found(run: RunState, node: cst.Attribute, owner: Value) -> Value | None:
    """What the call in progress has set an attribute to; None where that is not known."""
    return run.frame.scope.names.get(_name(node)) if _is_own(run.frame, node, owner) else None


def forget(run: RunState, receiver: object, given: Iterable[Value]) -> None:
    """Another method of the same object, or what gets the object, may set its attributes."""
    own = run.frame.receiver
    if own is not None and (own is receiver or any(own in one.atoms for one in given)):
        drop(run.frame.scope.names)


def drop(names: dict[str, Value]) -> None:
    """Take out of names what are attributes."""
    for name in [one for one in names if "." in one]:
        del names[name]


def _is_own(frame: Frame, node: cst.Attribute, owner: Value) -> bool:
    receiver = frame.receiver
    if receiver is None or not isinstance(node.value, cst.Name):
        return False
    if len(owner.atoms) != 1 or owner.atoms[0] is not receiver:
        return False
    return frame.in_forward or (_is_constructor(frame.runs) and _is_plain(receiver, node))


def _is_constructor(function: cst.CSTNode | None) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"


def _is_plain(model: Instance, node: cst.Attribute) -> bool:
    """Whether what is set is read as it is: by no property of the class."""
    of_class = model.type.find(node.attr.value) if isinstance(model.type, Class) else None
    return of_class is None and is_model(model)


def _name(node: cst.Attribute) -> str:
    assert isinstance(node.value, cst.Name)
    return f"{node.value.value}.{node.attr.value}"
