"""A whole data set, taken as the one batch of a loader that is made for it alone.

``next(iter(DataLoader(data, batch_size=len(data))))`` gives what the data set holds, as tensors:
no batch to share, but what the script may take its batches from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def is_taken(run: RunState, node: cst.BaseExpression, given: Value) -> bool:
    """Whether ``iter(...)`` is that of such a loader, within ``next(...)``."""
    parents = run.module.parents
    above = parents[parents[node]]
    name = above.func if isinstance(above, cst.Call) else None
    once = isinstance(name, cst.Name) and name.value == "next"
    made = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    loaders = [atom for atom in given.atoms if isinstance(atom, Instance) and is_loader(atom)]
    known = once and len(loaders) == 1 and loaders[0].site is made
    return known and isinstance(made, cst.Call) and _in_one_batch(made)


def _in_one_batch(loader: cst.Call) -> bool:
    """Whether the size of its batches is written as the length of its data set."""
    data, size = argument(loader, "dataset", 0), argument(loader, "batch_size", 1)
    if data is None or size is None or not isinstance(size.value, cst.Call) or not size.value.args:
        return False
    counted = size.value
    length = isinstance(counted.func, cst.Name) and counted.func.value == "len"
    return length and counted.args[0].value.deep_equals(data.value)
