"""``collections.defaultdict`` of objects of the project: meters by their names, as a rule.

What stands under a key that was not set is what the function gives that makes it: one object stands
for those of all keys. Of any other ``defaultdict`` nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.libraries import opaque
from ddpify.understanding.values import Class, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def made(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """A new dictionary, with what its function makes."""
    if not args or not all(isinstance(one, Class) for one in args[0].atoms) or not args[0].atoms:
        return opaque.foreign(run, node, "collections.defaultdict", args, kwargs)
    held = run.instance(node, run.module, "dict")
    run.put(held, "*", run.call(node, args[0], [], {}))
    return value(held)
