"""How many dimensions a tensor has that is made out of sizes, or of what is written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic.dimensions_left import noted
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import Const, Instance, Number, Tup, Value, deep_atoms, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

FROM_VALUES = frozenset("tensor as_tensor array asarray".split())
FILLED = frozenset("zeros ones empty".split())
DRAWN = ("rand", "randn")
_OF_A_SHAPE = {"full": 0, "randint": -1}  # which of the arguments holds the sizes
_IN_A_ROW = frozenset("arange range linspace logspace randperm bincount".split())
_OF_ROWS = frozenset("eye identity".split())


def note(run: RunState, node: cst.BaseExpression, name: str, short: str, made: Value) -> Value:
    """What a function of a tensor library has made, with its dimensions where they are known."""
    known = of_call(run, node, name, short) if isinstance(node, cst.Call) else 0
    number = short in FROM_VALUES and isinstance(node, cst.Call) and _is_of_a_number(run, node)
    return noted(made, known, number=number) if (known or number) and not made.data else made


def _is_of_a_number(run: RunState, node: cst.Call) -> bool:
    """Whether this is ``torch.tensor(0.5)``."""
    given = run.seen(node.args[0].value).constant() if node.args else ...
    return isinstance(given, (int, float))


def of_call(run: RunState, node: cst.Call, name: str, short: str) -> int:
    """How many dimensions ``torch.zeros(2, n)`` or ``torch.zeros(sizes)`` has; 0 if not known."""
    given = [one.value for one in node.args if one.keyword is None and not one.star]
    if any(one.star for one in node.args) or not given:
        return 0
    if short in _IN_A_ROW:
        return 1
    if short in _OF_ROWS:
        return 2
    if short in FROM_VALUES:
        return _written_out(given[0])
    if short in _OF_A_SHAPE:
        return of_shape(run, given[_OF_A_SHAPE[short] :][:1])
    if short not in FILLED and short not in DRAWN:
        return 0
    shape_alone = name.startswith("numpy.") and not name.startswith("numpy.random.")
    return of_shape(run, given[:1] if shape_alone else given)


def of_shape(run: RunState, sizes: list[cst.BaseExpression]) -> int:
    """How many sizes are given, one by one or in a tuple or a list; 0 where that is not known."""
    if len(sizes) != 1:
        return len(sizes)
    held = run.seen(sizes[0])
    known = {len(a.items) for a in held.of(Tup)}
    known |= {len(a.attributes) for a in held.of(Instance) if a.kind == "list"}
    known |= {1 for a in held.of(Const) if isinstance(a.value, int)}
    return known.pop() if len(known) == 1 and len(held.atoms) == 1 else 0


def of_pieces(short: str, pieces: Value) -> Value:
    """What is put together of tensors that all ranks hold."""
    held = [atom for atom in deep_atoms(pieces) if not isinstance(atom, (Tup, Instance))]
    ndim = dimensions.of_value(value(*held)) or 0
    more = ndim > 0 and short == "stack"
    return value(Number(ndim=ndim + more if ndim > 1 or more else None))


def as_that_of(made_of: Value) -> Value:
    """What a parameter or a buffer is that is made of a tensor which all ranks hold."""
    return value(Number(ndim=dimensions.of_value(made_of) or None))


def _written_out(node: cst.BaseExpression) -> int:
    """The dimensions of nested lists of numbers; 0 where something else is in them."""
    if not isinstance(node, (cst.List, cst.Tuple)) or not node.elements:
        return 0
    first = node.elements[0].value
    if isinstance(first, (cst.List, cst.Tuple)):
        inner = _written_out(first)
        return inner and inner + 1
    numbers = (cst.Integer, cst.Float, cst.UnaryOperation)
    return int(all(isinstance(one.value, numbers) for one in node.elements))


_IN_ROWS = ("Linear", "Embedding", "EmbeddingBag")
_WITH_A_BIAS = ("Linear", "Conv", "BatchNorm")


def of_parameter(kind: str, name: str) -> int:
    """How many dimensions a parameter of one of PyTorch's layers has; 0 where not known."""
    layer = kind.removeprefix("torch.nn.")
    if layer == kind or name not in ("weight", "bias"):
        return 0
    if name == "bias":
        return int(layer.startswith(_WITH_A_BIAS))
    if layer.startswith("Conv"):
        return dimensions.LAYERS.get(layer, 0)
    return 2 if layer in _IN_ROWS else int(layer.startswith("BatchNorm"))
