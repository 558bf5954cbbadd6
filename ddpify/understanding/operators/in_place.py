"""Which functions and methods change their tensor, as their names say: ``add_``, ``__iadd__``."""

from __future__ import annotations

# Python's operators that change what stands on their left, by the names of their methods.
OPERATORS = frozenset(
    "__setitem__ __delitem__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__"
    " __ipow__ __imatmul__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__".split()
)
_OF_NO_VALUE = frozenset("detach_ requires_grad_ share_memory_ item_ record_stream_".split())


def is_in_place(name: str) -> bool:
    """Whether a method or function changes its tensor, by PyTorch's own convention."""
    return name.endswith("_") and not name.endswith("__")


def changes_values(name: str) -> bool:
    """Whether it changes what the tensor holds, not only how that is used."""
    return (is_in_place(name) and name not in _OF_NO_VALUE) or name in OPERATORS
