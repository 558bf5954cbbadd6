"""Classes of values that nothing changes, without what ``@dataclass(frozen=True)`` costs.

An object of a frozen dataclass takes several times as long to make, since it guards itself against
changes, and defining its class takes twice as long. Linting one file defines dozens of them, and
makes many thousands of objects. Here type checkers alone keep watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # in ``typing`` from Python 3.11 on

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """What is said to type checkers."""
        return lambda decorator: decorator


Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True)
def record(made: type[Kind]) -> type[Kind]:
    """A dataclass whose objects are equal, and hash alike, where all their fields are equal."""
    return dataclass(slots=True, unsafe_hash=True)(made)
