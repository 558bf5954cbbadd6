"""Methods that reduce what their object holds over the ranks, such as ``meter.synchronize()``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint import sources
from ddpify.understanding.taint.reduced_attributes import is_reducing, reduced_attributes

# A `backward` is that of a function with a gradient of its own, never the loss's.
_NOT_SYNCHRONISING = frozenset("forward backward __init__ __call__ train fit run main step".split())
_DEEPEST = 3  # calls from what starts a training to its ``backward()``


Attributes = dict[object, set[str]]  # of classes


def reducing_methods(structures: dict[ModuleFile, Structure]) -> dict[str, Attributes]:
    """Methods that run a collective, or call one that does: which attributes of their classes go
    into it or come out of it.
    """
    found: dict[str, Attributes] = defaultdict(dict)
    for _ in range(2):
        known = set(found)
        for structure in structures.values():
            for function in structure.all(cst.FunctionDef):
                owner = structure.class_of(function)
                if owner is not None and _reduces(structure, function, known):
                    reduced = reduced_attributes(structure, function, known)
                    found[function.name.value][owner] = reduced
    training = _training_methods(structures) if found else set()
    return {
        name: owners
        for name, owners in found.items()
        if name not in _NOT_SYNCHRONISING and name not in training
    }


def _training_methods(structures: dict[ModuleFile, Structure]) -> set[str]:
    """Methods that train, themselves or by those that they call: what reduces in them is a part of
    what they do, and whoever starts the training calls them.
    """
    found = {"backward"}
    for _ in range(_DEEPEST):
        found |= {
            around
            for structure in structures.values()
            for call in structure.all(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in found
            and (around := _method_around(structure, call)) is not None
        }
    return found


def synchronising_calls(
    structures: dict[ModuleFile, Structure], methods: dict[str, Attributes]
) -> Iterator[tuple[ModuleFile, cst.Call, str]]:
    """Calls of these methods, with the name: not in one of them that nobody calls."""
    todo = [
        (module, call, call.func.attr.value, _method_around(structure, call))
        for module, structure in structures.items()
        for call in structure.all(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in methods
    ]
    run: set[str] = set()
    while todo:
        now = [one for one in todo if one[3] not in methods or one[3] in run]
        if not now:
            return
        todo = [one for one in todo if one[3] in methods and one[3] not in run]
        run |= {name for _, _, name, _ in now}
        yield from ((module, call, name) for module, call, name, _ in now)


def _method_around(structure: Structure, node: cst.CSTNode) -> str | None:
    function = structure.function(node)
    if function is None or structure.class_of(function) is None:
        return None
    return function.name.value


def gathering_functions(structures: dict[ModuleFile, Structure]) -> set[str]:
    """``apply`` of the project's functions with a gradient that run a collective, and its names.

    By name, since what they give is not seen: it only silences.
    """
    found = {
        f"{owner.name.value}.apply"
        for structure in structures.values()
        for function in structure.all(cst.FunctionDef)
        if function.name.value == "forward" and _reduces(structure, function, set())
        for owner in (structure.class_of(function),)
        if owner is not None and any("Function" in _text(base.value) for base in owner.bases)
    }
    for structure in structures.values() if found else ():
        for node in structure.all(cst.Assign):
            if _text(node.value) in found and isinstance(node.targets[0].target, cst.Name):
                found.add(node.targets[0].target.value)
    return found


def _text(node: cst.BaseExpression) -> str:
    """The last two parts of a dotted name."""
    return ".".join(sources.name_of(node).split(".")[-2:])


def _reduces(structure: Structure, function: cst.FunctionDef, known: set[str]) -> bool:
    """Whether a function's body calls a collective, by name: it may not have been run."""
    calls = structure.inside(function.body, cst.Call)
    return any(is_reducing(structure, call, known) for call in calls)
