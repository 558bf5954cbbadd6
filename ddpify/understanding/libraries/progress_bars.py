"""Progress bars: objects that go through something else, and functions that do so with a bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.libraries import python_functions
from ddpify.understanding.libraries.instances import bar
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.values import Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def _shown(name: str) -> Callable[..., Value]:
    """A bar around what it goes through."""

    def called(
        run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
    ) -> Value:
        return bar(run, node, name, args, kwargs)

    return called


def _like(name: str, function: str) -> Callable[..., Value]:
    """One of Python's functions on iterables, with a bar."""

    def called(
        run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
    ) -> Value:
        run.effect("bar", node, name)
        return python_functions.builtin(run, node, function, args, kwargs)

    return called


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: _shown(name) for name in BARS},
    **{
        f"tqdm.contrib.t{name}": _like(f"tqdm.contrib.t{name}", name)
        for name in ("enumerate", "zip", "map")
    },
}
