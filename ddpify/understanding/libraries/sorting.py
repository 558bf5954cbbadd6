"""Python's functions that put elements in order or choose among them: ``sorted()``, ``max()``.

Which element comes first, those of all ranks decide. A ``key`` is asked about each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords
from ddpify.understanding.batching import per_sample_lists
from ddpify.understanding.values import Value, deep_atoms, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

ORDERING = frozenset({"sorted", "max", "min"})


def compared(run: RunState, node: cst.BaseExpression, args: Sequence[Value], kwargs: Keywords
) -> None:  # fmt: skip
    """Note that the elements of an iterable are compared, by what a ``key`` makes of each."""
    if not args:
        return
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else node
    run.demand(given, per_sample_lists.numbers(args[0]), uses.POSITIONS)
    per_sample_lists.count_beside_whole(run, given, value(*deep_atoms(args[0])))
    if "key" in kwargs:
        run.call(node, kwargs["key"], [run.iterate(given, args[0])], {})
