"""Room on Python's own stack for code that calls itself deeply.

CPython keeps the frames of calls in pieces of 16 kB. It takes a piece from the operating system
when a call does not fit into the last one, and gives it back when that call returns. Code that goes
up and down across the end of a piece, as anything does that walks a tree, pays for that again and
again: a third of the time of understanding a script. A piece is as large as the frame that it is
taken for, up to twice, and what is left of it serves the calls below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

_SLOTS = 66_000  # of 8 bytes: just above half of 1 MB, so that the other half is free


def roomy(function: Function) -> Function:
    """Let all that a function calls share one large piece of the stack."""
    code = function.__code__
    function.__code__ = code.replace(co_stacksize=_SLOTS)
    return function
