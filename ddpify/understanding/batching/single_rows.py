"""What is made of a single number, or with a single row: no batch made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.shapes import bounds
from ddpify.understanding.values import Const, Instance, Number, QualifiedName, Tup, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_CONSTANTS = frozenset(
    f"{module}.{name}" for module in ("math", "numpy", "torch") for name in ("pi", "e", "inf")
)
_CONVERTING = frozenset("tensor as_tensor array asarray Tensor FloatTensor".split())
_OF_VALUES = _CONVERTING | frozenset("LongTensor IntTensor DoubleTensor".split())
# How many positional arguments NumPy's draws take before the size of what they give.
_BEFORE_SIZE = {
    **dict.fromkeys("rand randn random random_sample standard_normal".split(), 0),
    "choice": 1,
    **dict.fromkeys("randint uniform normal".split(), 2),
}
_VARIADIC = frozenset("zeros ones empty rand randn".split())  # torch.zeros(2, 3)
_OF_ONE_DIMENSION = ("arange", "linspace", "randperm")
_SHAPED = _VARIADIC | frozenset("full randint normal uniform random standard_normal".split())


def number(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> bool:
    """Whether a library call surely gives one number: ``torch.tensor(0.5)``, a single draw."""
    short = name.rsplit(".", 1)[-1]
    if name.startswith("numpy.random.") and short in _BEFORE_SIZE:
        return "size" not in kwargs and len(args) <= _BEFORE_SIZE[short]
    shown = isinstance(node, cst.Call) and len(node.args) > 0 and not node.args[0].star
    return short in _CONVERTING and shown and _is_number(run, node.args[0].value)  # type: ignore[attr-defined]


def _is_number(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number by how it is written."""
    if isinstance(node, cst.BinaryOperation):
        return _is_number(run, node.left) and _is_number(run, node.right)
    if isinstance(node, cst.UnaryOperation):
        return _is_number(run, node.expression)
    held = run.seen(node).atoms
    return bool(held) and all(_is_plain(atom) for atom in held)


def _is_plain(atom: object) -> bool:
    if isinstance(atom, QualifiedName):
        return atom.name in _CONSTANTS
    return isinstance(atom, Const) and isinstance(atom.value, (int, float))


def rows_of_one(run: RunState, node: cst.BaseExpression, short: str) -> frozenset[int]:
    """The dimensions along which a tensor is made with one row, as a mask for all samples is."""
    if not isinstance(node, cst.Call):
        return frozenset()
    if short in _SHAPED:
        return frozenset(dim for dim, one in enumerate(_ones(run, node, short)) if one)
    if short == "arange" and _is_one_long(node):
        return frozenset({0})
    return frozenset(_lists_of_one(run, node) if short in _OF_VALUES else ())


def _is_one_long(node: cst.Call) -> bool:
    """Whether this is ``arange(i, i + 1)``."""
    if len(node.args) != 2 or any(one.keyword is not None for one in node.args):
        return False
    first, end = (one.value for one in node.args)
    return bounds.is_one_more(end, first)


def dimensions(run: RunState, node: cst.BaseExpression, short: str) -> int:
    """How many dimensions a tensor is made with, by the sizes in the call; 0 where not known."""
    if short in _OF_ONE_DIMENSION or not isinstance(node, cst.Call):
        return int(short in _OF_ONE_DIMENSION)
    if short in _OF_VALUES and node.args:
        return _depth(run, node.args[0].value)
    size = _last_size(node, short)
    if size is not None and isinstance(run.seen(size).constant(), int):
        return 1
    return len(_ones(run, node, short)) if short in _SHAPED else 0


def _last_size(node: cst.Call, short: str) -> cst.BaseExpression | None:
    """What a tensor is made as large as, where a call gives one thing for that."""
    named = [a.value for a in node.args if a.keyword is not None and a.keyword.value == "size"]
    sizes = named or [a.value for a in node.args if a.keyword is None]
    before = 0 if named or short in _VARIADIC else _BEFORE_SIZE.get(short, len(sizes))
    return sizes[-1] if len(sizes) == before + 1 else None


def _depth(run: RunState, written: cst.BaseExpression) -> int:
    """How deep the numbers lie in a list that is written out, as ``[[i, j]]``; 0 if not known."""
    if not isinstance(written, cst.List):
        return 0
    held = [one.value for one in written.elements]
    if any(isinstance(one, cst.List) for one in held):
        depths = {_depth(run, one) for one in held}
        return depths.pop() + 1 if len(depths) == 1 and 0 not in depths else 0
    atoms = [atom for one in held for atom in run.seen(one).atoms]
    return int(bool(atoms) and all(isinstance(a, (Const, Number)) for a in atoms))


def _ones(run: RunState, node: cst.Call, short: str) -> list[bool]:
    """Of each size that a tensor is made with, whether it is 1."""
    given = [a.value for a in node.args if a.keyword is None or a.keyword.value == "size"]
    shapes = [a for one in given for a in run.seen(one).of(Tup)]
    if shapes:
        return [item.constant() == 1 for item in shapes[0].items]
    sizes = given if short in _VARIADIC and len(given) > 1 else []
    return [isinstance(one, cst.Integer) and one.value == "1" for one in sizes]


def _lists_of_one(run: RunState, node: cst.Call) -> Iterator[int]:
    """The dimensions of ``torch.tensor([[x]])`` that have one element, as it is written."""
    shown = _as_written(run, node.args[0].value) if node.args else None
    dim = 0
    while isinstance(shown, cst.List) and len(shown.elements) == 1:
        yield dim
        shown, dim = shown.elements[0].value, dim + 1


def _as_written(run: RunState, node: cst.BaseExpression) -> cst.CSTNode:
    """A list that is written out, also where it is given by a name: of lists, which do not grow."""
    held = run.seen(node).atoms if isinstance(node, cst.Name) else ()
    one = held[0] if len(held) == 1 else None
    written = one.site if isinstance(one, Instance) and one.kind == "list" else None
    nested = isinstance(written, cst.List) and any(
        isinstance(element.value, cst.List) for element in written.elements
    )
    return written if nested and written is not None else node
