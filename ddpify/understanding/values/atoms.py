"""What a value is made of; and those atoms that hold no values."""

from __future__ import annotations

from ddpify.records import record


class Atom:
    """One thing that an expression may stand for."""

    __slots__ = ()


@record
class Const(Atom):
    """A literal of the script."""

    value: object


@record
class QualifiedName(Atom):
    """Something a library defines, by its qualified name."""

    name: str


@record
class Device(Atom):
    """A device; ``index`` is set where the script names one accelerator of several."""

    accelerator: bool
    index: int | None
    conditional: bool = False
