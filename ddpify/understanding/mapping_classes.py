"""Classes of a project that derive from a dictionary, or that make up attributes.

``class Output(dict)`` with a ``__getattr__`` is how models return several tensors by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    Atom,
    Bound,
    Class,
    Const,
    Function,
    Instance,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_DICTIONARIES = frozenset(
    "builtins.dict collections.OrderedDict collections.UserDict collections.defaultdict"
    " typing.Dict".split()
)
_METHODS = frozenset("items keys values get pop popitem update setdefault copy clear".split())


def is_mapping(one: Instance) -> bool:
    """Whether an object is of a project's class that derives from a dictionary."""
    return isinstance(one.type, Class) and not _DICTIONARIES.isdisjoint(one.type.library_bases())


def has(one: Instance, method: str) -> bool:
    """Whether a method is one that an object has from the dictionary that its class derives of."""
    return method in _METHODS and is_mapping(one)


def goes_through_keys(one: Instance) -> bool:
    """Whether a loop over an object gets the keys of a dictionary."""
    return is_mapping(one) and isinstance(one.type, Class) and one.type.find("__iter__") is None


def item(one: Instance, key: str) -> Value | None:
    """What is held under a key; ``__setattr__ = dict.__setitem__`` puts attributes there, too."""
    held = one.attribute(key)
    if held is not None or not isinstance(one.type, Class) or not is_mapping(one):
        return held
    alike = key.startswith("['") and one.type.find("__setattr__") is not None
    return one.attribute(key[2:-2]) if alike else None


def with_key(atoms: list[Atom], key: str) -> list[Atom]:
    """What ``made["loss"]`` is taken of: not of a dictionary without it, beside one that has it.

    Which of the two a model gives goes by what it gets, and so does the line.
    """
    held = [one for one in atoms if isinstance(one, Instance) and item(one, key) is not None]
    return [one for one in atoms if not _surely_lacks(one, key)] if held else atoms


def _surely_lacks(one: Atom, key: str) -> bool:
    if not isinstance(one, Instance) or not (one.type == "dict" or is_mapping(one)):
        return False
    return one.attribute("*") is None and item(one, key) is None


def made_up(
    run: RunState, node: cst.BaseExpression, owner: Instance, name: str, *, called: bool
) -> Value | None:
    """What ``__getattr__`` gives for an attribute that an object has not; None without one.

    A model's passes on what the model wraps, which is looked up in another way.
    """
    found = owner.type.find("__getattr__") if isinstance(owner.type, Class) else None
    if found is None or (called and has(owner, name)):
        return None
    held = owner.attribute(f"[{name!r}]")
    functions = [one for one in found.atoms if isinstance(one, Function)]
    if held is not None and all(map(_gives_an_item, functions)):
        return held  # also of ``__getattr__ = dict.__getitem__``
    if not functions:
        return owner.elements
    return run.call(
        node, value(*(Bound(owner, one) for one in functions)), [value(Const(name))], {}
    )


def _gives_an_item(function: Function) -> bool:
    """Whether ``__getattr__(self, name)`` looks up ``self[name]``, and has no other result."""
    if isinstance(function.node, cst.Lambda) or len(function.node.params.params) != 2:
        return False
    receiver, name = (one.name.value for one in function.node.params.params)
    returned = [part.value for part in walk(function.node.body) if isinstance(part, cst.Return)]
    items = (f"{receiver}[{name}]", f"{receiver}.get({name})", f"{receiver}.__getitem__({name})")
    empty = cst.Module([])
    return bool(returned) and all(
        one is not None and empty.code_for_node(one) in items for one in returned
    )
