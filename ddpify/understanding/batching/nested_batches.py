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
    Atom,
    Class,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    value,
)

_DEEPEST = 4  # data sets in each other
_SUBSETS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
_OF_PAIRS = "torchvision.datasets."
_COMPOSED = "torchvision.transforms.Compose"
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


def _shape(dataset: Instance, left: int = _DEEPEST) -> _Shape | None:
    """What ``__getitem__`` of a data set gives, where it is written as a tuple."""
    if left and dataset.kind in _SUBSETS:
        held = dataset.arguments.get("0", dataset.arguments.get("dataset", UNKNOWN))
        inner = {_shape(one, left - 1) for one in held.of(Instance)}
        return inner.pop() if len(inner) == 1 else None
    if dataset.kind.startswith(_OF_PAIRS):
        return _transformed(dataset)
    made = dataset.type.find("__getitem__") if isinstance(dataset.type, Class) else None
    found = {_returned(dataset, one) for one in (made or UNKNOWN).of(Function)}
    return found.pop() if len(found) == 1 else None


def _transformed(dataset: Instance) -> _Shape | None:
    """What a data set of pictures with their labels gives, by what it is told to make of these."""
    arguments = dataset.arguments
    if "transforms" in arguments:
        return None
    by_place = (arguments[key] for key in sorted(arguments) if key.isdigit())
    named = dataset.attribute("transform") or arguments.get("transform")
    given = named or next(filter(_is_called, by_place), UNKNOWN)
    return (_gives_list(given), _gives_list(arguments.get("target_transform", UNKNOWN)))


def _is_called(given: Value) -> bool:
    objects = given.of(Instance)
    known = any(isinstance(one.type, Class) or one.kind == _COMPOSED for one in objects)
    return known or any(given.of(Function))


def _gives_list(called: Value) -> bool | None:
    """Whether calling something gives a tuple or list; None where it may be either."""
    found = {_is_given_by(one) for one in called.atoms}
    return found.pop() if len(found) == 1 else None if True in found else False


def _is_given_by(called: Atom) -> bool | None:
    if isinstance(called, Function):
        shown = _returns(called)
        return bool(shown) and all(one is not None and _is_display(one) for one in shown)
    if not isinstance(called, Instance):
        return False
    if called.kind == _COMPOSED:  # none but the last takes what is no picture
        steps = called.arguments.get("0", called.arguments.get("transforms", UNKNOWN))
        held = (deep for one in steps.of(Instance) for deep in one.elements.atoms)
        return any(_is_given_by(one) is True for one in held)
    found = called.type.find("__call__") if isinstance(called.type, Class) else None
    return _gives_list(found) if found is not None else False


def _returns(function: Function) -> list[cst.BaseExpression | None]:
    structure = function.module.structure
    inside = (part for part in walk(function.node) if isinstance(part, cst.Return))
    return [part.value for part in inside if structure.function(part) is function.node]


def _returned(dataset: Instance, function: Function) -> _Shape | None:
    shapes = {
        tuple(_is_list(dataset, function, element.value) for element in one.elements)
        if isinstance(one, cst.Tuple)
        else None
        for one in _returns(function)
    }
    return shapes.pop() if len(shapes) == 1 else None


def _is_list(dataset: Instance, function: Function, part: cst.BaseExpression) -> bool | None:
    made = list(_assigned(function, part.value)) if isinstance(part, cst.Name) else [part]
    told = {_is_one(dataset, one) for one in made}
    if not told or False in told:
        return False
    return True if True in told else None


def _is_one(dataset: Instance, made: cst.BaseExpression) -> bool | None:
    """Whether an expression in a data set's ``__getitem__`` gives a tuple or list."""
    if _is_display(made) or _is_cut(made):
        return True if _is_display(made) else None
    func = made.func if isinstance(made, cst.Call) else None
    if not isinstance(func, cst.Attribute) or dotted(func.value) != "self":
        return False
    own = dataset.attribute(func.attr.value)
    return _gives_list(own) if own is not None else False


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
