"""Batches of which a part is several tensors, since each sample has a tuple or list in its place.

PyTorch's own collate function puts the first of each such list together, then the second, and so
on: ``y[0]`` of ``image, [coarse, fine]`` is a tensor with a row for each sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import libcst as cst

from ddpify.understanding.forms import Layout
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
# For each part of a sample, whether it is a tuple or list; None where it may be either.
_Shape = tuple[bool | None, ...]


def yielded(loader: Instance) -> Value | None:
    """The parts of a loader's batches, of which one is several tensors; None for others."""
    arguments = loader.arguments
    whole = "batch_size" in arguments and arguments["batch_size"].constant() is None
    if whole or any(name in arguments for name in ("collate_fn", "batch_sampler")):
        return None
    shapes = {_shape(atom) for atom in arguments.get("dataset", UNKNOWN).of(Instance)}
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not any(any(shape) for shape in known):
        return None
    sources = frozenset({loader})
    return value(*(_batch(alike, sources) for alike in _of_one_length(known)))


def _of_one_length(shapes: Iterable[_Shape]) -> Iterator[list[_Shape]]:
    """Those of data sets among which a setting chooses, apart by how many parts a sample has."""
    by_length = sorted(shapes, key=len)
    for _, alike in groupby(by_length, key=len):
        yield list(alike)


def _batch(shapes: list[_Shape], sources: frozenset[Instance]) -> Tup:
    several = (True in told and False not in told for told in zip(*shapes, strict=True))
    forms = (Layout.BATCH if one else Layout.TENSOR for one in several)
    return Tup(tuple(value(Data(Placement.SHARD, sources, form=form)) for form in forms))


def _shape(dataset: Instance) -> _Shape | None:
    """What ``__getitem__`` of a data set of the project gives, where it is written as a tuple."""
    made = dataset.type.find("__getitem__") if isinstance(dataset.type, Class) else None
    found = {_returned(one) for one in (made or UNKNOWN).of(Function)}
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


def _is_list(function: Function, part: cst.BaseExpression) -> bool | None:
    made = list(_assigned(function, part.value)) if isinstance(part, cst.Name) else [part]
    if not made or not all(_is_display(one) or _is_cut(one) for one in made):
        return False
    return True if any(map(_is_display, made)) else None


def _is_cut(part: cst.BaseExpression) -> bool:
    """Whether this is ``parts[1:]``: as much a list as what it is taken of."""
    return isinstance(part, cst.Subscript) and isinstance(part.slice[0].slice, cst.Slice)


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
