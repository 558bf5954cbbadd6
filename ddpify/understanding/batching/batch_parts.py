"""Whether a batch is several tensors, in a tuple, list or dictionary.

Its length is then the number of its parts, which is the same on every rank, and not that of its
rows. A loader of unknown structure may yield either: the collate function, the data set or the
code that takes the batch apart tells which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import item_dimensions
from ddpify.understanding.forms import Layout
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Atom, Data, Instance, Tup, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_OF_DICTIONARIES = ("keys", "values", "items")


def are_several(batch: Atom, run: RunState, node: cst.CSTNode) -> bool:
    """Whether an expression that may be a loader's batch surely stands for several tensors."""
    if not isinstance(batch, Data) or batch.form is not Layout.BATCH or not batch.loaders:
        return False
    if all(one in run.facts.loading.parted or _has_parts(one) for one in batch.loaders):
        return True
    return isinstance(node, cst.Name) and _is_taken_apart(node, run.module)


def in_containers(made: Value) -> bool:
    """Whether all that a collate function may give is a tuple or a dictionary."""
    return bool(made) and all(
        isinstance(atom, Tup) or (isinstance(atom, Instance) and atom.type == "dict")
        for atom in made.atoms
    )


def _has_parts(loader: Instance) -> bool:
    arguments = loader.arguments
    whole = "batch_size" in arguments and arguments["batch_size"].constant() is None
    if whole or "collate_fn" in arguments or "**" in arguments:
        return False
    return item_dimensions.has_parts(loader)


def _is_taken_apart(name: cst.Name, module: ModuleFile) -> bool:
    """Whether the function around a name gives it to several others, or reads it by a key."""
    structure = module.structure
    scope = structure.function(name) or structure.tree
    return any(one.value == name.value for part in walk(scope) for one in _apart(part))


def _apart(part: cst.CSTNode) -> Iterator[cst.Name]:
    """What a statement or an expression takes for a tuple, list or dictionary."""
    unpacked = isinstance(part, cst.Assign) and isinstance(part.targets[0].target, cst.Tuple)
    by_name = isinstance(part, cst.Attribute) and part.attr.value in _OF_DICTIONARIES
    by_key = isinstance(part, cst.Subscript) and _is_by_key(part)
    if (unpacked or by_name or by_key) and isinstance(part.value, cst.Name):  # type: ignore[attr-defined]
        yield part.value  # type: ignore[attr-defined]


def _is_by_key(part: cst.Subscript) -> bool:
    index = part.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
