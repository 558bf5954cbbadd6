"""Objects that change their class in place, and are of their former one when pickled or copied."""

import copyreg
from typing import Any


def subclass_of(plain: Any, mixin: Any, /, **attributes: Any) -> Any:
    """A class between ``mixin`` and ``plain``, with the name, module and docstring of ``plain``."""
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
    return type(plain.__name__, (mixin, plain), {**names, "__doc__": plain.__doc__, **attributes})


def reduced_as(plain: Any, found: Any, reduced: Any) -> tuple[Any, ...]:
    """``__reduce_ex__`` of an object of class ``found``, made to give one of ``plain``."""
    make, args, *rest = reduced
    if make is copyreg.__newobj__:  # type: ignore[attr-defined]
        # A pickler would compare its argument with the object's class.
        return copyreg._reconstructor, (plain, object, None), *rest  # type: ignore[attr-defined]
    return make, tuple(plain if a is found else a for a in args), *rest
