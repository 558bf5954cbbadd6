"""Objects that change their class in place, and are of their former one when pickled or copied."""

from typing import Any


def subclass_of(plain: Any, mixin: Any, /, **attributes: Any) -> Any:
    """A class between ``mixin`` and ``plain``, with the name, module and docstring of ``plain``.

    An object's ``__class__`` goes on to be ``plain``: a pickler then takes it for one of these.
    """
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
    shown = property(lambda _: plain, _change_class)
    own = {"__doc__": plain.__doc__, "__class__": shown}
    return type(plain.__name__, (mixin, plain), {**names, **own, **attributes})


def _change_class(changed: Any, kind: Any) -> None:
    object.__dict__["__class__"].__set__(changed, kind)


def reduced_as(plain: Any, found: Any, reduced: Any) -> tuple[Any, ...]:
    """``__reduce_ex__`` of an object of class ``found``, made to give one of ``plain``."""
    make, args, *rest = reduced
    return make, tuple(plain if a is found else a for a in args), *rest
