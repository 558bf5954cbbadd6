"""Attributes that a model's forward or constructor sets and reads again: what it has set last.

What an object holds is all that was ever put there. In one call of a forward, ``self.features`` is
what this call has made of its own input, and no other batch's; in a constructor, what stands behind
``self.width = width`` reads this width, and none that is set further down. So it stands among the
call's names, as ``self.features``, until something may have changed it. So does what a round of a
loop over batches sets, as ``model.batch_size = len(y)``, before it calls the model.

Such names are handed to the methods of the object that are called, and what these leave is taken
up: in a constructor, each call of ``self.stage(width)`` reads the ``self.inplanes`` that the call
before has set; after ``model.batch_size = len(y)``, ``model.begin()`` makes states of as many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Class, Function, Instance, Value, join

if TYPE_CHECKING:
    from ddpify.understanding.frames import Frame
    from ddpify.understanding.run_state import RunState


def note(run: RunState, target: cst.Attribute, owner: Value, new: Value) -> None:
    """Remember what an attribute of a model is set to."""
    if _is_own(run.frame, target, owner):
        run.frame.scope.names[_name(target)] = new
    elif _is_for_round(run, target, owner):
        run.frame.tells = True
        run.frame.scope.names[_name(target)] = new


def found(run: RunState, node: cst.Attribute, owner: Value) -> Value | None:
    """What the call in progress has set an attribute to; None where that is not known."""
    if _is_own(run.frame, node, owner) or (run.frame.tells and _is_for_round(run, node, owner)):
        return run.frame.scope.names.get(_name(node))
    return None


@record
class Entered:
    """What a call starts with: attributes of its object, which the caller knows by a name."""

    name: str
    held: tuple[tuple[str, Value], ...]


def handed_on(
    run: RunState, node: cst.CSTNode, owner: Instance, function: Function
) -> Entered | None:
    """What has been set last of an object, for a method of it; None where nothing is known.

    A constructor hands on all that it knows, others what the object does not hold in any case.
    """
    frame = run.frame
    if _runs_apart(function):
        return None
    if _builds(frame) and _is_called_on_own(frame, node):
        name = _own_name(frame.runs)
        return Entered(name, _sorted(_by_attribute(frame, name)))
    called_on = _called_on(node)
    own = frame.in_forward and frame.receiver is owner
    if called_on is None or not (own or frame.tells) or run.seen(called_on).atoms != (owner,):
        return None
    known = _by_attribute(frame, called_on.value)
    told = {name: held for name, held in known.items() if not owner.holds_just(name, held)}
    return Entered(called_on.value, _sorted(told))


def _sorted(held: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(held.items(), key=lambda pair: pair[0]))


def _called_on(node: cst.CSTNode) -> cst.Name | None:
    """``model`` of ``model(x)`` and of ``model.begin()``."""
    called = node.func if isinstance(node, cst.Call) else None
    owner = called.value if isinstance(called, cst.Attribute) else called
    return owner if isinstance(owner, cst.Name) else None


def _runs_apart(function: Function) -> bool:
    """Whether a function knows no object, or runs only when what it yields is asked for."""
    node = function.node
    yields = node in function.module.structure.generators
    return yields or not isinstance(node, cst.FunctionDef) or not _own_name(node)


def enter(frame: Frame, given: Entered) -> None:
    """Let a method start with what its caller has set."""
    frame.builds = True
    take_up(frame, _own_name(frame.runs), dict(given.held))


def note_end(frame: Frame) -> None:
    """Note what attributes are where a call ends, or at one of its ends."""
    if frame.builds:
        frame.left.append(_by_attribute(frame, _own_name(frame.runs)))


def left(frame: Frame) -> dict[str, Value]:
    """What attributes are after a call, as far as each of its ends knows them."""
    first = frame.left[0] if frame.left else {}
    known = [name for name in first if all(name in one for one in frame.left)]
    return {name: join(*[one[name] for one in frame.left]) for name in known}


def forget(run: RunState, receiver: object, given: Iterable[Value]) -> None:
    """Another method of the same object, or what gets the object, may set its attributes.

    So may any function of an object that has a name in a loop.
    """
    own = run.frame.receiver
    called = own is not None and (own is receiver or any(own in one.atoms for one in given))
    if called or run.frame.tells:
        drop(run.frame.scope.names)


def drop(names: dict[str, Value]) -> None:
    """Take out of names what are attributes."""
    for name in [one for one in names if "." in one]:
        del names[name]


def rebound(frame: Frame, name: str) -> None:
    """A name stands for something else from here on."""
    if frame.tells:
        for one in _by_attribute(frame, name):
            del frame.scope.names[f"{name}.{one}"]


def is_being_made(run: RunState, model: Instance) -> bool:
    """Whether the constructor of an object is in progress."""
    return any(one.receiver is model and _is_constructor(one.runs) for one in run.frames)


def _is_own(frame: Frame, node: cst.Attribute, owner: Value) -> bool:
    """Whether this is an attribute of the object of which a forward or a constructor runs."""
    model = _named(node, owner)
    if model is None or model is not frame.receiver:
        return False
    return frame.in_forward or (_builds(frame) and _is_plain(model, node))


def _is_for_round(run: RunState, node: cst.Attribute, owner: Value) -> bool:
    """Whether this is an attribute of a model that a round of a loop over batches names."""
    model = _named(node, owner)
    if model is None or run.frames_forward() or not run.frame.loops:
        return False
    return run.in_batch_loop() and _is_plain(model, node)


def _named(node: cst.Attribute, owner: Value) -> Instance | None:
    """The one object that the name in ``name.attribute`` stands for."""
    if not isinstance(node.value, cst.Name) or len(owner.atoms) != 1:
        return None
    return next(owner.of(Instance), None)


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


def _by_attribute(frame: Frame, owner: str) -> dict[str, Value]:
    start = f"{owner}."
    named = frame.scope.names.items()
    return {name[len(start) :]: held for name, held in named if name.startswith(start)}


def take_up(frame: Frame, owner: str, given: Mapping[str, Value]) -> None:
    """Go on with what a method of an object has set, which has this name here."""
    frame.scope.names.update({f"{owner}.{name}": held for name, held in given.items()})


def _is_constructor(function: cst.CSTNode | None) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"


def _is_plain(model: Instance, node: cst.Attribute) -> bool:
    """Whether what is set is read as it is: by no property of the class."""
    of_class = model.type.find(node.attr.value) if isinstance(model.type, Class) else None
    return of_class is None and is_model(model)


def _name(node: cst.Attribute) -> str:
    assert isinstance(node.value, cst.Name)
    return f"{node.value.value}.{node.attr.value}"
