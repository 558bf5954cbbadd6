"""Classes of values that nothing changes, without what ``@dataclass(frozen=True)`` costs.

An object of a frozen dataclass takes several times as long to make, since it guards itself against
changes, and defining its class takes twice as long. Linting one file defines dozens of them, and
makes many thousands of objects. Here type checkers alone keep watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import replace as replace

    from typing_extensions import dataclass_transform
else:  # ``dataclass_transform`` is in ``typing`` from Python 3.11 on

    def replace(one: Any, /, **changes: Any) -> Any:
        """A record with other values in some fields: as ``dataclasses.replace``, which is slow."""
        kind = type(one)
        places, held = _layout(kind)
        values = list(held(one))
        for name, value in changes.items():
            if name not in places:
                raise TypeError(f"{kind.__qualname__} has no field {name}")
            values[places[name]] = value
        return kind(*values)

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """What is said to type checkers."""
        return lambda decorator: decorator


Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True)
def record(made: type[Kind]) -> type[Kind]:
    """A dataclass whose objects are equal, and hash alike, where all their fields are equal.

    Fields with ``field(hash=False)`` are left out of the hash, which is made the faster by that.
    """
    kind = dataclass(slots=True, eq=False, repr=False)(made)
    names = [one.name for one in fields(kind) if one.compare]  # type: ignore[arg-type]
    held = attrgetter(*names)  # compiling methods for each class takes longer than this
    told_apart = [one.name for one in fields(kind) if one.compare and one.hash is not False]  # type: ignore[arg-type]
    hashed = attrgetter(*told_apart)

    def equal(self: Kind, other: object) -> bool:
        if self is other:
            return True
        return held(self) == held(other) if type(other) is kind else NotImplemented

    def shown(self: Kind) -> str:
        return f"{kind.__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    kind.__eq__ = equal  # type: ignore[assignment, method-assign]
    kind.__hash__ = lambda self: hash(hashed(self))  # type: ignore[method-assign]
    kind.__repr__ = shown  # type: ignore[assignment, method-assign]
    return kind


@cache
def _layout(kind: type) -> tuple[dict[str, int], Callable[[Any], Any]]:
    """The places of the fields in the arguments that a record is made with, and their values."""
    names = [one.name for one in fields(kind) if one.init]
    held = attrgetter(*names)
    get = held if len(names) > 1 else lambda one: (held(one),)
    return {name: place for place, name in enumerate(names)}, get
