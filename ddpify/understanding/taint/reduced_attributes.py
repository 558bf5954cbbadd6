"""Which attributes of an object a method reduces over the ranks: no others become the same on all.

By the text of the method, since code that was never run has no values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from ddpify.understanding.libraries.distributed import REDUCING_NAMES
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.taint import sources
from ddpify.understanding.taint.constant_keys import entry_in

# What tensors and others have methods of, too: ``scores.gather(1, chosen)``.
_OF_TENSORS = frozenset({"gather", "scatter", "reduce", "broadcast"})
_ARRAYS = ("torch", "numpy")  # their functions of these names work on one tensor
_SETS = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.For)


def is_reducing(structure: Structure, call: cst.Call, known: Collection[str]) -> bool:
    """Whether a call runs a collective, or a method that is known to run one.

    A module has collectives of these names; any other object may be a tensor.
    """
    owner, _, short = sources.name_of(call.func).rpartition(".")
    if short in _OF_TENSORS and owner:
        first, _, rest = owner.partition(".")
        module = structure.imported.get(first, "")
        of_module = bool(module) and (bool(rest) or module not in _ARRAYS)
        return short in known or of_module
    return short in REDUCING_NAMES or short in known


def reduced_attributes(
    structure: Structure, function: cst.FunctionDef, known: Collection[str]
) -> set[str]:
    """The attributes of `self` that go into a collective, or are set from what came out of it."""
    calls = [
        x for x in structure.inside(function.body, cst.Call) if is_reducing(structure, x, known)
    ]
    given = {name for call in calls for name in _handed_over(call)}
    statements = [one for one in walk(function.body) if isinstance(one, _SETS)]
    sets = [_both_sides(one) for one in statements]
    for one in reversed(statements):
        targets, read = _both_sides(one)
        given |= read if targets & given and _is_another_name(one) else set()
    results = set(given)
    for node in statements:
        if any(inner in calls for inner in walk(node)):
            results |= _both_sides(node)[0]
    for _ in sets:
        for targets, read in sets:
            results |= targets if read & results else set()
    return {name.removeprefix("self.") for name in results if name.startswith("self.")}


def _is_another_name(node: cst.CSTNode) -> bool:
    """``for one in (self.a, self.b):`` or ``x = self.a``: what is changed in place is the same."""
    kept = (cst.Name, cst.Attribute, cst.List, cst.Tuple)
    return isinstance(node, cst.For) or isinstance(getattr(node, "value", None), kept)


def _handed_over(call: cst.Call) -> Iterator[str]:
    """What a collective gets, and the object whose method reduces it."""
    for argument in call.args:
        if entry_in(argument.value) is None:  # one entry alone is not all that an object keeps
            yield from _names(argument.value)
    if isinstance(call.func, cst.Attribute):
        yield from (one for one in _names(call.func.value) if one != "self")


def _both_sides(node: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The names and attributes that a statement sets, and those that it sets them from."""
    if isinstance(node, cst.For):
        return set(_names(node.target)), set(_names(node.iter))
    targets: list[cst.BaseExpression] = []
    if isinstance(node, cst.Assign):
        targets = [one.target for one in node.targets]
    elif isinstance(node, (cst.AnnAssign, cst.AugAssign)):
        targets = [node.target]
    made = getattr(node, "value", None)
    read = set(_names(made)) if made is not None else set()
    return {name for one in targets for name in _names(one)}, read


def _names(node: cst.CSTNode) -> Iterator[str]:
    """Names, and attributes of `self` as `self.name`, in an expression."""
    for one in walk(node):
        if isinstance(one, cst.Attribute):
            text = sources.name_of(one).split(".")
            if len(text) == 2 and text[0] == "self":
                yield f"self.{text[1]}"
        elif isinstance(one, cst.Name) and one.value != "self":
            yield one.value
