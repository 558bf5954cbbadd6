"""Settings that a loader gets otherwise than by its call, as ``loader.collate_fn = function``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.values import Class, Function, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_COLLATE = "collate_fn"
_OF_ALL_NAMES = ("__getattribute__", "__setattr__")
_PLAIN = ("staticmethod", "classmethod")


def note(run: RunState, node: cst.CSTNode, owner: Instance, name: str, new: Value) -> None:
    """The only one that a loader takes up then: PyTorch refuses others, or does not read them.

    A name that ends in a star is one that starts so.
    """
    if name == _COLLATE and is_loader(owner):
        run.give(owner, name, new)
    elif name.endswith("*") and _COLLATE.startswith(name[:-1]):
        note_any(run, node, owner)


def note_any(run: RunState, node: cst.CSTNode, owner: Instance) -> None:
    """A loader may get any setting: which function puts its samples together is not known."""
    if is_loader(owner):
        run.mixes_batches(node, (owner,))


def note_class(run: RunState, node: cst.CSTNode, made: Instance) -> None:
    """The class of a loader may say by itself what puts its samples together.

    A plain method does not: ``DataLoader`` sets the function that it is given on each loader.
    """
    if not isinstance(made.type, Class):
        return
    found = made.type.find(_COLLATE)
    computed = found is not None and not all(map(_is_plain, found.atoms))
    if computed or any(made.type.find(name) is not None for name in _OF_ALL_NAMES):
        note_any(run, node, made)


def _is_plain(held: object) -> bool:
    """Whether a class has a function, a class or a plain object, and nothing that computes one."""
    if isinstance(held, Function) and isinstance(held.node, cst.FunctionDef):
        decorators = [code.decorator for code in held.node.decorators]
        return all(isinstance(one, cst.Name) and one.value in _PLAIN for one in decorators)
    return isinstance(held, (Function, Class))
