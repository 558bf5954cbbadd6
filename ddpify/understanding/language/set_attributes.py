"""Attributes that a model's forward or constructor sets and reads again: what it has set last.

What an object holds is all that was ever put there. In one call of a forward, ``self.features`` is
what this call has made of its own input, and no other batch's; in a constructor, what stands behind
``self.width = width`` reads this width, and none that is set further down. So it stands among the
call's names, as ``self.features``, until something may have changed it. A constructor hands such
names to the methods of its object that it calls, and takes up what these leave: each call of
``self.stage(width)`` reads the ``self.inplanes`` that the call before has set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Class, Function, Instance, Value, join

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


def handed_on(run: RunState, node: cst.CSTNode, function: Function) -> dict[str, Value] | None:
    """What the constructor in progress has set last, for ``self.method()``; None in other calls."""
    frame = run.frame
    if not _builds(frame) or not _is_called_on_own(frame, node):
        return None
    if _runs_apart(function):
        return None
    return _by_attribute(frame)


def _runs_apart(function: Function) -> bool:
    """Whether a function knows no object, or runs only when what it yields is asked for."""
    node = function.node
    yields = node in function.module.structure.generators
    return yields or not isinstance(node, cst.FunctionDef) or not _own_name(node)


def enter(frame: Frame, given: Mapping[str, Value]) -> None:
    """Let a method start with what the constructor that calls it has set."""
    frame.builds = True
    take_up(frame, given)


def note_end(frame: Frame) -> None:
    """Note what attributes are where a call ends, or at one of its ends."""
    if frame.builds:
        frame.left.append(_by_attribute(frame))


def left(frame: Frame) -> dict[str, Value]:
    """What attributes are after a call, as far as each of its ends knows them."""
    first = frame.left[0] if frame.left else {}
    known = [name for name in first if all(name in one for one in frame.left)]
    return {name: join(*[one[name] for one in frame.left]) for name in known}


def forget(run: RunState, receiver: object, given: Iterable[Value]) -> None:
    """Another method of the same object, or what gets the object, may set its attributes."""
    own = run.frame.receiver
    if own is not None and (own is receiver or any(own in one.atoms for one in given)):
        drop(run.frame.scope.names)


def drop(names: dict[str, Value]) -> None:
    """Take out of names what are attributes."""
    for name in [one for one in names if "." in one]:
        del names[name]


def is_being_made(run: RunState, model: Instance) -> bool:
    """Whether the constructor of an object is in progress."""
    return any(one.receiver is model and _is_constructor(one.runs) for one in run.frames)


def _is_own(frame: Frame, node: cst.Attribute, owner: Value) -> bool:
    receiver = frame.receiver
    if receiver is None or not isinstance(node.value, cst.Name):
        return False
    if len(owner.atoms) != 1 or owner.atoms[0] is not receiver:
        return False
    return frame.in_forward or (_builds(frame) and _is_plain(receiver, node))


def _builds(frame: Frame) -> bool:
    """Whether this is a constructor, or a method of its object that it calls."""
    return frame.builds or _is_constructor(frame.runs)


def _is_called_on_own(frame: Frame, node: cst.CSTNode) -> bool:
    """Whether this is ``self.method()`` or ``super().method()``: of this very object."""
    called = node.func if isinstance(node, cst.Call) else None
    owner = called.value if isinstance(called, cst.Attribute) else None
    if isinstance(owner, cst.Call):
        return dotted(owner.func) == "super"
    return isinstance(owner, cst.Name) and owner.value == _own_name(frame.runs)


def _own_name(function: cst.CSTNode | None) -> str:
    """What a method calls its object: ``self``."""
    given = function.params if isinstance(function, cst.FunctionDef) else None
    names = [*given.posonly_params, *given.params] if given is not None else []
    return names[0].name.value if names else ""


def _by_attribute(frame: Frame) -> dict[str, Value]:
    own = f"{_own_name(frame.runs)}."
    named = frame.scope.names.items()
    return {name[len(own) :]: held for name, held in named if name.startswith(own)}


def take_up(frame: Frame, given: Mapping[str, Value]) -> None:
    """Go on with what another method of the object has set."""
    own = _own_name(frame.runs)
    frame.scope.names.update({f"{own}.{name}": held for name, held in given.items()})


def _is_constructor(function: cst.CSTNode | None) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"


def _is_plain(model: Instance, node: cst.Attribute) -> bool:
    """Whether what is set is read as it is: by no property of the class."""
    of_class = model.type.find(node.attr.value) if isinstance(model.type, Class) else None
    return of_class is None and is_model(model)


def _name(node: cst.Attribute) -> str:
    assert isinstance(node.value, cst.Name)
    return f"{node.value.value}.{node.attr.value}"
