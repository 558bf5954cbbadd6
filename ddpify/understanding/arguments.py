"""The arguments of a call, beside the expressions that give them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile

import libcst as cst

from ddpify.understanding.frames import Frame
from ddpify.understanding.values import Data, Value, deep_atoms

Keywords = dict[str, Value]
# The first parameters, besides the tensor, of what is read by the position of its arguments.
_FIRST = {
    "size": ("dim",),
    "squeeze": ("dim",),
    "unsqueeze": ("dim",),
    "expand_dims": ("axis",),
    "split": ("split_size", "split_size_or_sections", "indices_or_sections"),
    "chunk": ("chunks",),
    "flatten": ("start_dim", "end_dim"),
    "transpose": ("dim0", "dim1"),
    "permute": ("dims",),
    "reshape": ("shape",),
}
_BEHIND = {"end_dim": "start_dim", "dim1": "dim0"}  # what is given by position comes before
_TENSOR = ("input",)
# What a layer takes first; ``input`` and a state where nothing is said.
_OF_LAYERS = {
    "torch.nn.Transformer": ("src", "tgt"),
    "torch.nn.TransformerEncoder": ("src",),
    "torch.nn.TransformerDecoder": ("tgt", "memory"),
    "torch.nn.TransformerEncoderLayer": ("src",),
    "torch.nn.TransformerDecoderLayer": ("tgt", "memory"),
    "torch.nn.MultiheadAttention": ("query", "key", "value"),
}
_OF_A_LAYER = ("input", "hx")
_PLACED = frozenset(
    name
    for names in (_TENSOR, _OF_A_LAYER, *_FIRST.values(), *_OF_LAYERS.values())
    for name in names
)


def by_position(
    name: str, args: list[Value], kwargs: Keywords, tensors: int
) -> tuple[list[Value], Keywords]:
    """The arguments of ``x.size(dim=0)`` as those of ``x.size(0)``.

    Args:
        name: The last name of a method or function of a tensor.
        args: Its positional arguments.
        kwargs: Its others.
        tensors: How many of the former are the tensor: 0 for a method, 1 for a function.
    """
    first = (*_TENSOR[: max(tensors - len(args), 0)], *_FIRST.get(name, ()))
    named = [one for one in first if one in kwargs]
    alone = any(_BEHIND.get(one, one) not in named for one in named)
    if not named or alone or len(args) > tensors or name not in _FIRST:
        return args, kwargs
    others = {key: one for key, one in kwargs.items() if key not in named}
    return [*args, *(kwargs[one] for one in named)], others


def of_layer(
    kind: str, node: cst.CSTNode, args: list[Value], kwargs: Keywords
) -> tuple[list[Value], Keywords]:
    """The arguments of ``attention(query=x, key=y, value=y)`` as those of ``attention(x, y, y)``.

    They are left as they are where the call does not show them in this order.
    """
    names = _OF_LAYERS.get(kind, _OF_A_LAYER)[len(args) :]
    named = list(takewhile(kwargs.__contains__, names))
    given = node.args if isinstance(node, cst.Call) and kind.startswith("torch.nn.") else ()
    shown = [a.keyword.value for a in given[len(args) :] if a.keyword is not None]
    if not named or shown[: len(named)] != named or any(a.star for a in given):
        return args, kwargs
    others = {key: one for key, one in kwargs.items() if key not in named}
    return [*args, *(kwargs[one] for one in named)], others


def argument_pairs(
    node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> list[tuple[cst.BaseExpression, Value]]:
    """Each argument with the expression that gives it, where the call shows one."""
    shown, named, plain = _shown(node)
    positional = list(shown)
    if plain and named:
        positional += [one for key, one in named.items() if key in _PLACED and key not in kwargs]
    pairs = [(positional[i] if i < len(positional) else node, a) for i, a in enumerate(args)]
    return pairs + [(named.get(k, node), v) for k, v in kwargs.items()] if kwargs else pairs


@lru_cache(maxsize=4096)
def _shown(
    node: cst.BaseExpression,
) -> tuple[tuple[cst.BaseExpression, ...], dict[str, cst.BaseExpression], bool]:
    """What a call shows by position and by name, and whether without stars: asked often."""
    shown = node.args if isinstance(node, cst.Call) else ()
    positional = tuple(a.value for a in shown if a.keyword is None and not a.star)
    named = {a.keyword.value: a.value for a in shown if a.keyword is not None}
    return positional, named, not any(a.star for a in shown)


def local_data(one: Value) -> Iterable[Data]:
    """What in a value or in its containers differs from rank to rank."""
    return (a for a in deep_atoms(one) if isinstance(a, Data) and a.placement.local)


def argument_of(frame: Frame, name: str) -> cst.BaseExpression | None:
    """What the call in progress shows for a parameter; None where it shows nothing."""
    call = frame.call.node if frame.call is not None else None
    if not isinstance(call, cst.Call) or not isinstance(frame.runs, cst.FunctionDef):
        return None
    named = next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
    if named is not None:
        return named.value
    parameters = frame.runs.params
    names = [p.name.value for p in (*parameters.posonly_params, *parameters.params)]
    place = names.index(name) - (frame.receiver is not None) if name in names else -1
    shown = [a for a in call.args if a.keyword is None]
    plain = not any(a.star for a in shown[: place + 1])
    return shown[place].value if 0 <= place < len(shown) and plain else None


def argument_at(node: cst.BaseExpression, number: int) -> cst.BaseExpression:
    """The expression of a call's argument, or the whole call where it is not written out."""
    given = node.args if isinstance(node, cst.Call) else ()
    plain = number < len(given) and not any(a.star or a.keyword for a in given[: number + 1])
    return given[number].value if plain else node
