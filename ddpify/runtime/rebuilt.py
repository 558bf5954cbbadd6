"""Plain forms of values that a restart makes anew: of fixed content, or known by their name."""

import array
import enum
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

NAMED = (FunctionType, BuiltinFunctionType, type)


def name_of(value: Any) -> tuple[str, str] | None:
    """Module and name of a function or class that its module holds; None of any other."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    found = getattr(sys.modules.get(module or ""), name, None)
    return (str(module), name) if found is value else None


def read_named(content: Any, _: Any, name: str) -> Any:
    """The function or class of a name.

    Raises RuntimeError where the restarted script has none.
    """
    module, known_as = content
    found = getattr(sys.modules.get(module), known_as, None)
    if not isinstance(found, NAMED):
        raise RuntimeError(f"{name} was {module}.{known_as}, which the restarted script lacks")
    return found


def read_member(content: str, into: Any, name: str) -> Any:
    """A member of the enumeration that ``into`` is of."""
    if not isinstance(into, enum.Enum):
        raise RuntimeError(f"{name} was a member of an enumeration, and is none in the restart")
    return type(into)[content]


def read_numbers(content: Any, into: Any, _: str) -> Any:
    """An array of the standard library, in place where there is one."""
    made = array.array(content[0], content[1])
    if not isinstance(into, array.array) or into.typecode != made.typecode:
        return made
    into[:] = made
    return into


def read_byte_array(content: Any, into: Any, _: str) -> Any:
    """A bytearray, in place where there is one."""
    if not isinstance(into, bytearray):
        return bytearray(content)
    into[:] = bytes(content)
    return into


def slot_attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that an object keeps in slots."""
    for kind in type(value).__mro__:
        found = vars(kind).get("__slots__", ())
        for name in (found,) if isinstance(found, str) else found:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def is_known_by_identity(key: Any) -> bool:
    """Whether a dictionary finds a key by what it is, as parameters and modules, not by its
    value."""
    same: Any = type(key).__eq__
    return same is object.__eq__
