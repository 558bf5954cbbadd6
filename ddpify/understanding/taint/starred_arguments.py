"""Arguments that a call passes on by ``*args`` and ``**kwargs``, each to its parameter."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.taint.dependencies import Dependencies, Dependency
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.scopes import FunctionNode, collecting
from ddpify.understanding.taint.taken_apart import elements
from ddpify.understanding.values import Data, Instance, value

_MOST = 12  # of the arguments that a function collects, those that are told apart


def collected(function: FunctionNode, call: cst.Call, skip: int) -> dict[cst.Arg, Location]:
    """Where a function keeps each argument that goes into its ``*args`` or ``**kwargs``."""
    more, named = collecting(function)
    names = _by_position(function)
    known = {*names, *(one.name.value for one in function.params.kwonly_params)}
    found: dict[cst.Arg, Location] = {}
    position = skip
    for argument in call.args:
        if argument.star == "*":
            break
        if argument.star:
            continue
        if argument.keyword is None:
            if more is not None and position >= len(names):
                found[argument] = ("name", function, more, position - len(names))
            position += 1
        elif named is not None and argument.keyword.value not in known:
            found[argument] = ("name", function, named, argument.keyword.value)
    return found


def passed_on(
    function: FunctionNode, call: cst.Call, skip: int
) -> Iterator[tuple[cst.Arg, int | str, Location]]:
    """The starred arguments of a call, with the number or the key of an item, and where it goes."""
    names, (more, _) = _by_position(function), collecting(function)
    first = skip + sum(1 for one in call.args if not one.star and one.keyword is None)
    filled = {*names[:first], *(one.keyword.value for one in call.args if one.keyword is not None)}
    for argument in call.args:
        if argument.star == "*":
            for number, name in enumerate(names[first:]):
                yield argument, number, ("name", function, name)
            for number in range(_MOST if more is not None and first <= len(names) else 0):
                at = ("name", function, more, number)
                yield argument, len(names) - first + number, at
        elif argument.star:
            for one in (*function.params.params, *function.params.kwonly_params):
                if one.name.value not in filled:
                    yield argument, one.name.value, ("name", function, one.name.value)


def _by_position(function: FunctionNode) -> list[str]:
    """The parameters that arguments without a name fill, in order."""
    given = function.params
    return [one.name.value for one in (*given.posonly_params, *given.params)]


def item_of(
    dependencies: Dependencies, module: ModuleFile, given: cst.Arg, item: int | str
) -> list[Dependency]:
    """What an item of a starred argument is made from, where it is known which one it is.

    That is an argument which the function around the call has collected, an element of a display,
    a part of a batch, or what a comprehension has made in each round.
    """
    node = given.value
    ones = elements(node)
    if ones is not None and isinstance(item, int):
        return dependencies.of(ones[item], module) if item < len(ones) else []
    held = dependencies.facts.values.get(node, value()).atoms
    if held and all(map(_is_of_one_kind, held)):
        return dependencies.of(node, module)
    around = dependencies.structures[module].function(node)
    if around is None or not isinstance(node, cst.Name) or node.value not in collecting(around):
        return []
    return [Dependency(("name", around, node.value, item), node=node)]


def _is_of_one_kind(atom: object) -> bool:
    """A batch, ``[x[key] for key in keys]``: no item is made of other things than the next."""
    return isinstance(atom, Data) or (
        isinstance(atom, Instance) and isinstance(atom.site, (cst.ListComp, cst.GeneratorExp))
    )
