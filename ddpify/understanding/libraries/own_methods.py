"""Methods of the project's objects that no line calls by name: Python's operators do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Function,
    Instance,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Owner = Instance | Class
Operand = tuple[cst.BaseExpression, Value]

_ARITHMETIC = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
_COMPARISONS: dict[type, tuple[str, ...]] = {
    cst.Equal: ("eq", "eq"), cst.NotEqual: ("ne", "eq", "ne", "eq"), cst.LessThan: ("lt", "gt"),
    cst.GreaterThan: ("gt", "lt"), cst.LessThanEqual: ("le", "ge"),
    cst.GreaterThanEqual: ("ge", "le"), cst.In: ("", "contains"), cst.NotIn: ("", "contains"),
}  # fmt: skip
_UNARY = {cst.Minus: "neg", cst.Plus: "pos", cst.BitInvert: "invert"}
# Made by a call, in place of a decorator.
_PROPERTIES = ("builtins.property", "functools.cached_property")
_STATIC, _OF_CLASS = "builtins.staticmethod", "builtins.classmethod"
WRAPPING = (*_PROPERTIES, _STATIC, _OF_CLASS)
_AS_TEXT = ("format", "str", "repr")
_TRUTH = ("bool", "len")
_BUILTINS = {
    "float": ("float",), "int": ("int", "index"), "bool": _TRUTH, "complex": ("complex",),
    "str": ("str", "repr"), "print": _AS_TEXT[1:], "repr": ("repr",), "format": _AS_TEXT,
    "abs": ("abs",), "round": ("round",), "hash": ("hash",), "reversed": ("reversed",),
}  # fmt: skip


def called(
    run: RunState, node: cst.BaseExpression, one: Value, name: str, *given: Operand
) -> Value | None:
    """What a method gives that an object of the project has; None where none has it."""
    bound = [
        Bound(made, function)
        for made in one.of(Instance, Class)
        for function in _found(made, f"__{name}__").of(Function)
    ]
    if not bound:
        return None
    args = [definition_sites.given_as(held, shown) for shown, held in given]
    return run.call(node, value(*bound), args, {})


def unwrapped(run: RunState, node: cst.BaseExpression, one: Instance, owner: Owner) -> Value:
    """What ``property(f)``, ``staticmethod(f)`` or ``classmethod(f)`` is for an object or class."""
    if one.type in _PROPERTIES and isinstance(owner, Instance):
        return run.call(node, accessor(one, "fget", owner), [], {})
    held = one.arguments.get("0", UNKNOWN)
    of_class = owner if isinstance(owner, Class) else owner.type
    if one.type != _OF_CLASS or not isinstance(of_class, Class):
        return held if one.type == _STATIC else value(one)
    return value(*(Bound(of_class, function) for function in held.of(Function)))


def accessor(made: Instance, name: str, owner: Owner) -> Value:
    """What ``property(fget, fset)`` calls where the attribute of an object is read, or set."""
    if made.type not in _PROPERTIES:
        return UNKNOWN
    place = {"fget": "0", "fset": "1"}[name]
    held = made.arguments.get(name) or made.arguments.get(place) or UNKNOWN
    return value(*(Bound(owner, function) for function in held.of(Function)))


def _found(made: Atom, name: str) -> Value:
    """A method of an object's class; of a class, one that its metaclass has."""
    if isinstance(made, Class):
        return made.find_in_metaclass(name) or UNKNOWN
    own = made.type if isinstance(made, Instance) else None
    return (own.find(name) if isinstance(own, Class) else None) or UNKNOWN


def of_two(
    run: RunState, node: cst.BaseExpression, operator: str, left: Operand, right: Operand
) -> Value | None:
    """What ``left operator right`` gives, or ``left operator= right``."""
    name = _ARITHMETIC.get(operator, operator)
    made = called(run, node, left[1], name, right)
    return called(run, node, right[1], f"r{name}", left) if made is None else made


def in_place(
    run: RunState, node: cst.BaseExpression, operator: str, left: Operand, right: Operand
) -> Value | None:
    """What ``left operator= right`` gives."""
    made = called(run, node, left[1], f"i{_ARITHMETIC.get(operator, operator)}", right)
    return of_two(run, node, operator, left, right) if made is None else made


def compared(run: RunState, node: cst.Comparison, values: list[Value]) -> Value | None:
    """What the method gives that a comparison of two calls."""
    target = node.comparisons[0]
    names = _COMPARISONS.get(type(target.operator), ())
    left, right = (node.left, values[0]), (target.comparator, values[1])
    for place, name in enumerate(names if len(values) == 2 else ()):
        one, other = (left, right) if place % 2 == 0 else (right, left)
        made = called(run, node, one[1], name, other)
        if made is not None:
            return made
    return None


def of_one(run: RunState, node: cst.UnaryOperation, operand: Value) -> Value | None:
    """What ``-x``, ``+x`` or ``~x`` gives."""
    name = _UNARY.get(type(node.operator))
    return None if name is None else called(run, node, operand, name)


def truth(run: RunState, node: cst.BaseExpression, one: Value) -> Value:
    """What says whether an object counts as true; nothing where none does."""
    return _first(run, node, one, _TRUTH)


def as_text(run: RunState, node: cst.BaseExpression, one: Value) -> None:
    """Run what makes a text of an object."""
    _first(run, node, one, _AS_TEXT)


def builtin(run: RunState, node: cst.BaseExpression, name: str, args: list[Value]) -> Value:
    """What one of Python's own functions asks objects for; nothing where they have no method."""
    for one in args if name in _BUILTINS else ():
        made = _first(run, node, one, _BUILTINS[name])
        if made and name != "print":
            return made
    return UNKNOWN


def _first(run: RunState, node: cst.BaseExpression, one: Value, names: tuple[str, ...]) -> Value:
    for name in names:
        made = called(run, node, one, name)
        if made is not None:
            return made
    return UNKNOWN
