"""Data sets that change what they hold of a sample each time it is taken.

``sample = self.samples[i]; sample["x"] = sample["x"] / 2`` halves it again in the next epoch: what
a sample is goes by how often it was taken, so that each rank must take all of them. What is kept
once, as in a cache, or computed of what stays as it is, is the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from ddpify.records import record
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Instance, Value

Place = tuple[str, str]  # what a data set holds under a name, and a key in a sample, "" for any
Key = str | Place  # a variable, or a place

_SELF = "self."
_COPIES = ("iloc", "loc", "at", "iat")
_CHANGING = frozenset("append extend insert reverse pop popitem remove".split())
_SAME_TWICE = frozenset("requires_grad_ clamp_ squeeze_ zero_ fill_".split())


@record
class _Assignment:
    """What an assignment sets, what it is made of, and whether that is computed."""

    target: Key
    read: frozenset[Key]
    computed: bool


def changes_samples(
    loader: Instance, nodes: Sequence[cst.CSTNode], seen: Mapping[cst.CSTNode, Value]
) -> bool:
    """Whether these nodes of a data set's ``__getitem__`` change what it holds once more."""
    if _in_workers(loader):  # which begin each epoch with what the main process holds
        return False
    return _Reading(nodes, seen).changes()


def _in_workers(loader: Instance) -> bool:
    workers = loader.arguments.get("num_workers", UNKNOWN).constant()
    kept = "persistent_workers" in loader.arguments
    return isinstance(workers, int) and workers > 0 and not kept


class _Reading:
    """What the nodes of a method do with the samples that its object holds."""

    def __init__(self, nodes: Sequence[cst.CSTNode], seen: Mapping[cst.CSTNode, Value]) -> None:
        self.nodes, self.seen = nodes, seen
        self.held: dict[str, str] = {}  # the variables that are a part of what is stored
        assigned = [node for node in nodes if isinstance(node, cst.Assign)]
        for one in assigned:
            owner = self._owner(one.value)
            self.held.update((name, owner) for name in _names(one) if owner is not None)
        self.made = [made for one in assigned for made in self._assignments(one)]

    def changes(self) -> bool:
        """Whether one of them is changed by what it was before."""
        places = (one for one in self.made if not isinstance(one.target, str))
        return any(map(self._is_in_place, self.nodes)) or any(map(self._is_of_itself, places))

    def _owner(self, node: cst.BaseExpression) -> str | None:
        place = self._place(node)
        return None if place is None else place[0]

    def _place(self, node: cst.BaseExpression) -> Place | None:
        """``self.samples`` and ``"x"`` of ``self.samples[i]["x"]``; None of what is not stored."""
        links: list[cst.BaseExpression] = []
        while isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            name = dotted(node) or ""
            if name in self.held:
                return self.held[name], _key(links[-1:])
            if name.startswith(_SELF):
                taken = bool(links) and isinstance(links[-1], cst.Subscript)
                stored = taken and name.rpartition(".")[2] not in _COPIES
                return (name, _key(links[-2:-1])) if stored and not self._makes(node) else None
            if isinstance(node, cst.Name):
                return None
            links.append(node)
            node = node.value
        return None

    def _makes(self, container: cst.BaseExpression) -> bool:
        """Whether this is an object whose items are made when they are asked for."""
        known = self.seen.get(container, UNKNOWN).of(Instance)
        return any(one.type not in ("list", "dict") for one in known)

    def _assignments(self, node: cst.Assign) -> Iterator[_Assignment]:
        read = frozenset(self._read(node.value))
        computed = not isinstance(node.value, (cst.Name, cst.Subscript, cst.IfExp))
        targets: list[Key] = [name for name in _names(node) if name not in self.held]
        for one in node.targets:
            item = isinstance(one.target, (cst.Subscript, cst.Attribute))
            place = self._place(one.target) if item else None
            targets += [] if place is None else [place]
        yield from (_Assignment(target, read, computed) for target in targets)

    def _read(self, node: cst.CSTNode) -> Iterator[Key]:
        """The variables and the places that an expression reads."""
        place = self._place(node) if isinstance(node, cst.BaseExpression) else None
        if place is not None:
            yield place
        elif isinstance(node, cst.Name):
            yield node.value
        else:
            for child in _parts(node):
                yield from self._read(child)

    def _is_in_place(self, node: cst.CSTNode) -> bool:
        """``sample["n"] += 1``, ``image -= image.mean()``, ``sample.append(1)``, ``x.mul_(2)``."""
        if isinstance(node, cst.AugAssign):
            number = isinstance(node.target, cst.Name) and isinstance(node.value, cst.Integer)
            return not number and self._owner(node.target) is not None
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        name = node.func.attr.value
        of_tensors = name.endswith("_") and not name.endswith("__") and name not in _SAME_TWICE
        return (name in _CHANGING or of_tensors) and self._owner(node.func.value) is not None

    def _is_of_itself(self, one: _Assignment) -> bool:
        """Whether a place is set to what is computed of what it held before."""
        known: set[tuple[Key, bool]] = set()
        todo = [(key, one.computed) for key in one.read]
        while todo:
            key, computed = todo.pop()
            if computed and _are_one(key, one.target):
                return True
            if (key, computed) not in known:
                known.add((key, computed))
                of = (made for made in self.made if _are_one(made.target, key))
                todo += [(k, computed or made.computed) for made in of for k in made.read]
        return False


def _parts(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """What an expression is made of, without the names of attributes, methods and arguments."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return [node.func.value, *node.args]
    return [node.value] if isinstance(node, (cst.Attribute, cst.Arg)) else node.children


def _names(statement: cst.Assign) -> Iterator[str]:
    """The variables that an assignment sets, also in a tuple."""
    for one in statement.targets:
        target = one.target
        parts: list[cst.CSTNode] = [target]
        if isinstance(target, (cst.Tuple, cst.List)):
            parts = [part.value for part in target.elements]
        yield from (part.value for part in parts if isinstance(part, cst.Name))


def _key(links: Sequence[cst.BaseExpression]) -> str:
    """The text or the attribute by which a part of a sample is taken; "" for others."""
    for link in links:
        if isinstance(link, cst.Attribute):
            return repr(link.attr.value)
        key = link.slice[0].slice if isinstance(link, cst.Subscript) else None
        text = key.value if isinstance(key, cst.Index) else None
        return repr(text.evaluated_value) if isinstance(text, cst.SimpleString) else ""
    return ""


def _are_one(key: Key, other: Key) -> bool:
    """Whether two keys may name the same."""
    if isinstance(key, str) or isinstance(other, str):
        return key == other
    return key[0] == other[0] and (key[1] == other[1] or "" in (key[1], other[1]))
