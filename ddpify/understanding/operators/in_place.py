"""Which functions of PyTorch change their tensor, as their names say: ``add_``, ``zeros_``."""

from __future__ import annotations

_OF_NO_VALUE = frozenset("detach_ requires_grad_ share_memory_ item_ record_stream_".split())


def is_in_place(name: str) -> bool:
    """Whether a method or function changes its tensor, by PyTorch's own convention."""
    return name.endswith("_") and not name.endswith("__")


def changes_values(name: str) -> bool:
    """Whether it changes what the tensor holds, not only how that is used."""
    return is_in_place(name) and name not in _OF_NO_VALUE
