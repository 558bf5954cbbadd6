"""Callables of Python's own library that are made first and called later.

``itemgetter("x")(batch)``, ``methodcaller("mean", 0)(out)``, ``lru_cache(measure)(out)``. Those
that hand a function on are that function. None of the others is a model, which would treat each
sample alone: what they make of tensors is made of the rows of all ranks.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.understanding.arguments import Keywords, argument_pairs, local_data
from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.batching import collating, per_sample_lists
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import opaque, partial_calls
from ddpify.understanding.libraries.object_kinds import NO_GRAD
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Data,
    Function,
    Instance,
    QualifiedName,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_GETTERS = ("operator.itemgetter", "operator.attrgetter", "operator.methodcaller")
_HANDING_ON = ("functools.lru_cache", "functools.wraps")  # made with options, of a function next
_MODES = (*NO_GRAD, "torch.enable_grad", "torch.autocast", "torch.amp.autocast")  # of functions
_TRACED = "torch.jit.trace"  # which keeps what a function has computed, and not the function
_CALLABLE = (Function, Bound, Class, QualifiedName)
_OF_TENSORS = frozenset({"numpy", "scipy"})


def is_one(atom: Atom) -> TypeGuard[Instance]:
    """Whether a call of this object runs what Python's own library, or NumPy's, has made."""
    if not isinstance(atom, Instance) or atom.role is not None:
        return False
    if not isinstance(atom.type, Class):
        return is_of_python(atom.type) or atom.type in (*_MODES, _TRACED)
    bases = list(atom.type.library_bases())
    own = atom.type.find("__call__") is not None
    return bool(bases) and not own and all(map(is_of_python, bases))


def is_known(atom: Instance) -> bool:
    """Whether it is known what such an object does, and not only that it is no model."""
    return atom.kind in (*_GETTERS, *_HANDING_ON, *_MODES)


def is_of_python(name: str) -> bool:
    """Whether a qualified name is one of Python's own library, or of NumPy or SciPy."""
    library, _, rest = name.partition(".")
    return bool(rest) and (library in sys.stdlib_module_names or library in _OF_TENSORS)


def getter(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``operator.itemgetter(..)`` and its relatives: an object that keeps what it was made with."""
    name = _name(run, node)
    if any(True for one in (*args, *kwargs.values()) for _ in local_data(one)):
        return opaque.foreign(run, node, name, args, kwargs)
    made = run.instance(node, run.module, name)
    for key, given in [*((str(i), one) for i, one in enumerate(args)), *kwargs.items()]:
        run.give(made, key, given)
    return value(made)


def handing_on(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """What gives a function back, as ``lru_cache(f)`` does, or ``wraps(g)`` once it is called."""
    name = _name(run, node)
    if name != "functools.wraps" and any(isinstance(a, _CALLABLE) for a in _first(args).atoms):
        return args[0]
    return value(run.instance(node, run.module, _HANDING_ON[1]))


def traced(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``torch.jit.trace(f, x)``: a model as it is; of a function, what no reduction gets into."""
    given = _first(args)
    if not any(isinstance(a, _CALLABLE) for a in given.atoms):
        return given
    return value(run.instance(node, run.module, _TRACED))


def call(
    run: RunState, node: cst.BaseExpression, made: Instance, args: list[Value], kwargs: Keywords
) -> Value:
    """What such an object makes of its arguments."""
    if made.kind in (*_HANDING_ON, *_MODES):
        return _first(args)
    plain = not any(isinstance(a, Data) for one in args for a in deep_atoms(one))
    if made.kind in _GETTERS and args and (plain or _is_container(args[0])):
        return join(*(_got(run, node, made, atom) for atom in args[0].atoms))
    return of_all(run, node, made.kind, args, kwargs)


def of_all(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """What code that is not read makes of rows: of those of all ranks, and perhaps no rows."""
    operands = [(s, per_sample_lists.rows(v)) for s, v in argument_pairs(node, args, kwargs)]
    local = [(shown, v) for shown, v in operands if any(True for _ in local_data(v))]
    whole = [a for v in args for a in v.of(Data) if a.form is Layout.GATHERED]
    if whole and not local and run.frames_forward():
        return across_samples.perhaps_rows(name, value(*whole))
    tensors = [v.data for _, v in local]  # none of what holds them, such as a list
    plain = all(held and all(d.placement is Placement.SHARD for d in held) for held in tensors)
    if not local or not plain:
        return opaque.foreign(run, node, name, args, kwargs)
    collating.read_together(run, node, args)
    made = across_samples.coupled_operands(run, node, local)
    return across_samples.perhaps_rows(name, made)


def _is_container(held: Value) -> bool:
    """Whether these are tuples or dictionaries alone, whose items are known by their keys."""
    return all(isinstance(a, Tup) or getattr(a, "type", None) == "dict" for a in held.atoms)


def _got(run: RunState, node: cst.BaseExpression, made: Instance, atom: Atom) -> Value:
    """What a getter takes out of something: an item, an attribute or what a method gives."""
    given = {key: one for key, one in made.arguments.items() if key.isdigit()}
    asked = list(given.values())
    if made.kind == "operator.methodcaller":
        named = {key: one for key, one in made.arguments.items() if key not in given}
        method = _attribute(run, node, atom, asked[0].constant())
        return run.call(node, method, asked[1:], named)
    taking = _item if made.kind == "operator.itemgetter" else _attribute
    found = [taking(run, node, atom, one.constant()) for one in asked]
    return found[0] if len(found) == 1 else value(Tup(tuple(found)))


def _item(run: RunState, node: cst.BaseExpression, atom: Atom, key: object) -> Value:
    if isinstance(atom, Tup):
        if isinstance(key, int) and -len(atom.items) <= key < len(atom.items):
            return atom.items[key]
        return join(*atom.items)
    if isinstance(atom, Instance):
        return atom.attribute(f"[{key!r}]") or atom.elements or REPLICATED
    return REPLICATED


def _attribute(run: RunState, node: cst.BaseExpression, atom: Atom, names: object) -> Value:
    found = value(atom)
    for name in names.split(".") if isinstance(names, str) else ():
        found = join(*(run.attribute_of(node, one, name) for one in found.atoms))
    return found if isinstance(names, str) else UNKNOWN


def _first(args: list[Value]) -> Value:
    return args[0] if args else UNKNOWN


def _name(run: RunState, node: cst.BaseExpression) -> str:
    """The qualified name of what a call makes."""
    called = run.seen(node.func) if isinstance(node, cst.Call) else UNKNOWN
    names = [one.name for one in called.of(QualifiedName)]
    return names[0] if names else _GETTERS[0]


FUNCTIONS = {
    **dict.fromkeys(_GETTERS, getter),
    **dict.fromkeys((*_HANDING_ON, "functools.cache", "functools.singledispatch"), handing_on),
    _TRACED: traced,
    "types.MethodType": partial_calls.made,  # of a function, and its first argument
}
