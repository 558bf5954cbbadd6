"""Objects that change their class in place, and are of their former one when pickled or copied."""

import functools
from typing import Any, cast


def subclass_of(plain: Any, mixin: Any, /, **attributes: Any) -> Any:
    """A class between ``mixin`` and ``plain``, with the name, module and docstring of ``plain``.

    An object's ``__class__`` goes on to be the plain one: a pickler then takes it for one of these.
    Its type is equal to ``plain``, as scripts compare that to sort layers into groups.
    """
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
    bare = _plain_of(plain)  # which may be between a mixin and another class itself
    shown = property(lambda _: bare, _change_class)
    own = {"__doc__": plain.__doc__, "__class__": shown, "_ddpify_plain": plain}
    kind: Any = _equal_type(cast(Any, type(plain)))
    return kind(plain.__name__, (mixin, plain), {**names, **own, **attributes})


@functools.cache
def _equal_type(kind: Any) -> Any:
    """A metaclass of classes that are equal to the plain one that they stand for."""
    equality = {"__eq__": _is_equal, "__hash__": lambda changed: hash(_plain_of(changed))}
    return type(kind.__name__, (kind,), equality)


def _is_equal(one: Any, other: Any) -> bool:
    return _plain_of(one) is _plain_of(other)


def _plain_of(kind: Any) -> Any:
    """The class that another stands for; derived ones stand for themselves."""
    plain = kind
    while isinstance(plain, type) and "_ddpify_plain" in vars(plain):
        plain = vars(plain)["_ddpify_plain"]
    return plain


def _change_class(changed: Any, kind: Any) -> None:
    object.__dict__["__class__"].__set__(changed, kind)


def reduced_as(plain: Any, found: Any, reduced: Any) -> tuple[Any, ...]:
    """``__reduce_ex__`` of an object of class ``found``, made to give one of ``plain``."""
    make, args, *rest = reduced
    return make, tuple(plain if a is found else a for a in args), *rest
