"""Makes LibCST's nodes cheaper in a process that only lints: to define, and to make.

Importing LibCST defines two hundred frozen dataclasses, and a third of that time goes into guards
against changes and into representations that are replaced at once. Each node that the parser makes
is guarded and validated anew, though it stands for code that has just been parsed. A linter changes
no node and writes no code from nodes, so that its own process can do without.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

_NODES = "libcst._nodes."


def install() -> None:
    """Let LibCST, where it is not imported yet, define its nodes as plain classes."""
    if "libcst" not in sys.modules:
        dataclasses.dataclass = _light(dataclasses.dataclass)


def _light(dataclass: Callable[..., Any]) -> Any:
    """The decorator, with less to do for nodes and the same for all other classes."""

    def decorator(made: type | None = None, /, **options: Any) -> Any:
        if made is None:
            return lambda cls: decorator(cls, **options)
        if made.__module__.startswith(_NODES):
            options |= {"frozen": False, "repr": False, "eq": False}
            if "__post_init__" in vars(made):  # it does nothing but validate
                del made.__post_init__  # type: ignore[attr-defined]
        return dataclass(made, **options)

    return decorator
