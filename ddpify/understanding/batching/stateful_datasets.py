"""Data sets that go on from sample to sample: each rank must take all samples, and keep its own.

``self.file.readline()`` and ``next(self.lines)`` in ``__getitem__`` give what comes next, whatever
the index is, and so does what ``__getitem__`` writes down for the next sample. What is looked up
first, as by ``self.file.seek(self.offsets[index])``, does not. Nor do samples stay what
they are that are changed where they are stored each time they are taken, or made of what a
generator of the data set's own draws next.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.batching import (
    changed_samples,
    held_generators,
    kept_between_samples,
)
from ddpify.understanding.facts import Facts
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Class, Function, Instance, Value, deep_atoms

_NEXT = ("readline", "__next__")
_DEEPEST = 4  # data sets in each other
_SPLITS = ("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")


def goes_on(loader: Instance, facts: Facts) -> bool:
    """Whether a loader's samples go by those that were taken before."""
    seen = facts.values
    return any(
        kept_between_samples.keeps(atom.type)
        or _takes_next(nodes)
        or changed_samples.changes_samples(loader, nodes, seen)
        or held_generators.draws_in_turn(atom, nodes, seen)
        for atom in _sources(loader, facts)
        if isinstance(atom.type, Class)
        for nodes in [_read_for_a_sample(atom.type)]
    )


def _sources(loader: Instance, facts: Facts) -> list[Instance]:
    """The data sets of a loader; where none is seen, those that ``random_split()`` gets."""
    found = list(_data_sets(loader.arguments.get("dataset", UNKNOWN)))
    splits = (site.node for name in _SPLITS for site in facts.library_calls.get(name, {}).values())
    calls = [node for node in splits if isinstance(node, cst.Call) and node.args]
    given = (facts.values.get(call.args[0].value, UNKNOWN) for call in calls)
    return found or [one for held in given for one in _data_sets(held)]


def _data_sets(held: Value, left: int = _DEEPEST) -> Iterator[Instance]:
    """The data sets of the project that a value is, or that PyTorch's take their samples from."""
    for atom in deep_atoms(held):
        if not isinstance(atom, Instance):
            continue
        if isinstance(atom.type, Class):
            yield atom
        elif left and atom.kind.startswith("torch.utils.data."):
            for given in atom.arguments.values():
                yield from _data_sets(given, left - 1)


def _read_for_a_sample(dataset: Class) -> list[cst.CSTNode]:
    functions = reached_methods(dataset, "__getitem__")
    return [node for function in functions for node in walk(function.node.body)]


def _takes_next(nodes: list[cst.CSTNode]) -> bool:
    calls = [node for node in nodes if isinstance(node, cst.Call)]
    sought = any(_method(c) == "seek" and not _is_start(c) for c in calls)
    return not sought and any(_is_next(call) for call in calls)


def _is_own(name: str) -> bool:
    return name.startswith("self.")


def reached_methods(owner: Class, name: str, known: set[str] | None = None) -> Iterator[Function]:
    """A method of a class, with those of its own that it calls."""
    known = set() if known is None else known
    found = owner.find(name) if name not in known else None
    known.add(name)
    for function in found.atoms if found is not None else ():
        if isinstance(function, Function):
            yield function
            for node in walk(function.node.body):
                called = dotted(node.func) if isinstance(node, cst.Call) else None
                if called and called.startswith("self.") and called.count(".") == 1:
                    yield from reached_methods(owner, called.removeprefix("self."), known)


def _is_next(call: cst.Call) -> bool:
    """Whether this takes the next of something that the data set itself holds."""
    if _method(call) in _NEXT:
        assert isinstance(call.func, cst.Attribute)
        return _is_held(call.func.value)
    return dotted(call.func) == "next" and bool(call.args) and _is_held(call.args[0].value)


def _is_held(node: cst.BaseExpression) -> bool:
    return _is_own(dotted(node) or "")


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _is_start(call: cst.Call) -> bool:
    return all(isinstance(argument.value, cst.Integer) for argument in call.args)
