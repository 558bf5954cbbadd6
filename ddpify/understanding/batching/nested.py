"""Batches of which a part is several tensors, since each sample has a tuple or list in its place.

PyTorch's own collate function puts the first of each such list together, then the second, and so
on: ``y[0]`` of ``image, [coarse, fine]`` is a tensor with a row for each sample.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.forms import Form
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    value,
)

_LISTS = (cst.List, cst.ListComp, cst.Tuple)
_Shape = tuple[bool, ...]  # for each part of a sample, whether it is a tuple or list


def yielded(loader: Instance) -> Value | None:
    """The parts of a loader's batches, of which one is several tensors; None for others."""
    arguments = loader.arguments
    whole = "batch_size" in arguments and arguments["batch_size"].constant() is None
    if whole or any(name in arguments for name in ("collate_fn", "batch_sampler")):
        return None
    shapes = {_shape(atom) for atom in arguments.get("dataset", UNKNOWN).of(Instance)}  # type: ignore[arg-type]
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or not any(shape):
        return None
    sources = frozenset({loader})
    forms = (Form.BATCH if several else Form.TENSOR for several in shape)
    parts = (value(Data(Placement.SHARD, sources, form=form)) for form in forms)
    return value(Tup(tuple(parts)))


def _shape(dataset: Instance) -> _Shape | None:
    """What ``__getitem__`` of a data set of the project gives, where it is written as a tuple."""
    made = dataset.type.find("__getitem__") if isinstance(dataset.type, Class) else None
    found = {_returned(one) for one in (made or UNKNOWN).of(Function)}  # type: ignore[arg-type]
    return found.pop() if len(found) == 1 else None


def _returned(function: Function) -> _Shape | None:
    structure = function.module.structure
    inside = (part for part in walk(function.node) if isinstance(part, cst.Return))
    given = [part.value for part in inside if structure.function(part) is function.node]
    shapes = {
        tuple(_is_list(function, element.value) for element in one.elements)
        if isinstance(one, cst.Tuple)
        else None
        for one in given
    }
    return shapes.pop() if len(shapes) == 1 else None


def _is_list(function: Function, part: cst.BaseExpression) -> bool:
    if isinstance(part, cst.Name):
        made = list(_assigned(function, part.value))
        return bool(made) and all(_is_display(one) for one in made)
    return _is_display(part)


def _is_display(part: cst.BaseExpression) -> bool:
    made = isinstance(part, cst.Call) and dotted(part.func) in ("tuple", "list")
    return made or isinstance(part, _LISTS)


def _assigned(function: Function, name: str) -> Iterator[cst.BaseExpression]:
    """What a name is set to in a function, wherever that is written out."""
    for part in walk(function.node):
        if isinstance(part, cst.Assign):
            for target in part.targets:
                for node in walk(target.target):
                    if isinstance(node, cst.Name) and node.value == name:
                        yield part.value if node is target.target else node
