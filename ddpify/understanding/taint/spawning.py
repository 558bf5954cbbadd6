"""Which parameters get the number of a process, where a script starts its ranks itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import PROCESSES
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import UNPACKED, parameters
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.scopes import FunctionNode
from ddpify.understanding.values import Bound, Function, value


def spawned_ranks(
    facts: Facts, structure: Structure, call: cst.Call, names: Iterable[str]
) -> Iterator[Location]:
    """The slots of such parameters: the first of ``mp.spawn(f)``, ``i`` of a loop of processes."""
    if any(name.startswith("torch.multiprocessing.s") for name in names) and call.args:
        yield from _parameters(facts, call.args[0].value, [0])
    elif any(name in PROCESSES for name in names):
        given = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
        passed = given.get("args")
        if "target" in given and isinstance(passed, (cst.Tuple, cst.List)):
            numbers = set(_numbers(structure, call))
            places = [
                place
                for place, element in enumerate(passed.elements)
                if isinstance(element.value, cst.Name) and element.value.value in numbers
            ]
            yield from _parameters(facts, given["target"], places)


def spawned_arguments(
    facts: Facts, call: cst.Call, names: Iterable[str]
) -> Iterator[tuple[Location, cst.BaseExpression]]:
    """The slots of the parameters that get ``args`` of ``mp.spawn`` or of a process, with these."""
    given = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
    spawns = any(name.startswith("torch.multiprocessing.s") for name in names)
    if spawns:
        positions = ("fn", "args")
        plain = [a.value for a in call.args if a.keyword is None]
        given = {**dict(zip(positions, plain, strict=False)), **given}
    elif not any(name in PROCESSES for name in names):
        return
    function, passed = given.get("fn" if spawns else "target"), given.get("args")
    if function is None or not isinstance(passed, (cst.Tuple, cst.List)):
        return
    for one, named in _started(facts, function):
        told = named[1 if spawns else 0 :]
        for parameter, element in zip(told, passed.elements, strict=False):
            yield ("name", one, parameter.name.value), element.value


def _parameters(
    facts: Facts, function: cst.BaseExpression, places: list[int]
) -> Iterator[Location]:
    for one, named in _started(facts, function):
        for place in places:
            if place < len(named):
                yield ("name", one, named[place].name.value)


def _started(
    facts: Facts, function: cst.BaseExpression
) -> Iterator[tuple[FunctionNode, list[cst.Param]]]:
    """The functions that a process starts with, each with the parameters that it is told."""
    held = facts.values.get(function, value())
    for one in held.of(Function):
        yield one.node, parameters(one.node)
    for bound in held.of(Bound):
        yield bound.function.node, parameters(bound.function.node)[1:]


def _numbers(structure: Structure, node: cst.CSTNode) -> Iterator[str]:
    """Names that count the rounds of a loop around a node."""
    around = [loop for loop in structure.up(node) if isinstance(loop, (cst.For, cst.CompFor))]
    for above in structure.up(node):
        if isinstance(above, (cst.ListComp, cst.GeneratorExp)):
            around.append(above.for_in)
    for loop in around:
        if isinstance(loop.iter, cst.Call) and isinstance(loop.iter.func, cst.Name):
            target: cst.BaseExpression = loop.target
            if loop.iter.func.value == "enumerate" and isinstance(target, UNPACKED):
                target = target.elements[0].value
            if loop.iter.func.value in ("range", "enumerate"):
                yield from target_names(target)
