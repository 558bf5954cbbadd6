"""What a data set writes down when it gives a sample, and reads when it gives a later one.

Read are the statements of ``__getitem__`` in their order, with those of the data set's own methods
where it calls them. An attribute, an entry or a global name that is surely set before it is read is
no such thing, nor is what nobody reads, nor what is the same whichever sample comes first: what is
looked up by the index, or made once where it is missing and not of the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import libcst as cst

from ddpify.records import record
from ddpify.understanding.structure import children, walk
from ddpify.understanding.syntax import dotted, names_of
from ddpify.understanding.values import Class, Function

_CHANGING = frozenset(
    "append appendleft add extend extendleft insert update pop popleft popitem remove discard clear"
    " rotate reverse sort move_to_end setdefault".split()
)
_OF_A_CACHE = frozenset("pop popitem move_to_end setdefault update clear".split())
_LATER = (cst.If, cst.For, cst.While, cst.Try, cst.IfExp, cst.BooleanOperation)


@record
class _Event:
    """A place that is read, changed, or set anew for each sample (``anew``)."""

    place: str
    writes: bool = False
    anew: bool = False


def keeps(dataset: Class) -> bool:
    """Whether what a data set gives goes by what it has written down for earlier samples."""
    found = dataset.find("__getitem__")
    functions = [f for f in (found.atoms if found else ()) if isinstance(f, Function)]
    return any(_is_carried(list(_Reading(dataset, one).events())) for one in functions)


def _is_carried(events: Sequence[_Event]) -> bool:
    """Whether a place is read that an earlier call has written."""
    anew, written, read = set[str](), set[str](), set[str]()
    for event in events:
        if event.place in anew:
            continue
        if event.anew:
            anew.add(event.place)
        (written if event.writes else read).add(event.place)
    return bool(written & read)


class _Reading:
    """The events of a data set's ``__getitem__``."""

    def __init__(self, dataset: Class, function: Function) -> None:
        self.dataset, self.function = dataset, function
        parameters = [one.name.value for one in function.node.params.params]
        self.index = set(parameters[1:])
        self.shared = {
            name.name.value
            for node in walk(function.node.body)
            if isinstance(node, cst.Global)
            for name in node.names
        }
        self.asked = set(self._asked(function))
        self.of_sample = self._made_of_the_index(function)
        self.entered: list[Function] = []

    def events(self) -> Iterator[_Event]:
        return self._of_function(self.function)

    def _of_function(self, function: Function, *, later: bool = False) -> Iterator[_Event]:
        if function in self.entered:
            return
        self.entered.append(function)
        yield from self._of(function.node.body, later)
        self.entered.pop()

    def _of(self, node: cst.CSTNode, later: bool) -> Iterator[_Event]:
        """What happens in a node; ``later`` where it may be left out."""
        if isinstance(node, (cst.Assign, cst.AnnAssign)):
            yield from self._assigned(node, later)
        elif isinstance(node, cst.AugAssign):
            yield from self._of(node.value, later)
            yield from self._changed(node.target, None)
        elif isinstance(node, cst.Call):
            yield from self._called(node, later)
        elif self._place(node) is not None:
            yield _Event(cast(str, self._place(node)))
        else:
            inner = later or isinstance(node, _LATER)
            for one in children(node):
                yield from self._of(one, inner)

    def _assigned(self, node: cst.Assign | cst.AnnAssign, later: bool) -> Iterator[_Event]:
        targets = (
            [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
        )
        parts = [part for target in targets for part in names_of(target)]
        if node.value is None:
            return
        own = {self._place(part) for part in parts} & self._places(node.value)
        for event in self._of(node.value, later):
            if event.place not in own:
                yield event
        for part in parts:
            place = self._place(part)
            if place is None:
                yield from self._changed(part, node.value)
            elif place in own:
                if self._is_of_sample(node.value) or not _is_a_default(node.value, part):
                    yield _Event(place, writes=True)
            elif not later:
                yield _Event(place, writes=True, anew=True)
            elif not (place in self.asked and not self._is_of_sample(node.value)):
                yield _Event(place, writes=True)

    def _changed(self, target: cst.CSTNode, given: cst.BaseExpression | None) -> Iterator[_Event]:
        """What is written into a place, or added to it; looked up by the index it is a cache."""
        owner = target
        while isinstance(owner, (cst.Subscript, cst.Attribute)) and self._place(owner) is None:
            owner = owner.value
        place = self._place(owner)
        if place is None:
            return
        if isinstance(target, cst.Subscript) and given is not None:
            key = target.slice[0].slice if len(target.slice) == 1 else None
            by_index = isinstance(key, cst.Index) and dotted(key.value) in self.index
            if (by_index or place in self.asked) and place not in self._places(given):
                return
        yield _Event(place, writes=True)

    def _called(self, node: cst.Call, later: bool) -> Iterator[_Event]:
        set_by_name = self._set_by_name(node)
        if set_by_name is not None:
            yield from self._of(node.args[2].value, later)
            yield _Event(set_by_name, writes=True)
            return
        for argument in node.args:
            yield from self._of(argument.value, later)
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        own = self._own_method(node)
        if own:
            for function in own:
                yield from self._of_function(function, later=later)
        elif method in _CHANGING and isinstance(node.func, cst.Attribute):
            place = self._place(node.func.value)
            cached = method in _OF_A_CACHE and place in self.asked
            if place is not None and not cached:
                yield _Event(place, writes=True)
        elif self._place(node) is not None:
            yield _Event(cast(str, self._place(node)))
        else:
            yield from self._of(node.func, later)

    # ------------------------------------------------------------------ places
    def _place(self, node: cst.CSTNode) -> str | None:
        """The name under which something outlives the call: an attribute, or a global name."""
        if isinstance(node, cst.Name):
            return node.value if node.value in self.shared else None
        if isinstance(node, cst.Attribute):
            return node.attr.value if self._is_self(node.value) else None
        if isinstance(node, cst.Subscript):
            return self._entry(node)
        if isinstance(node, cst.Call) and dotted(node.func) in ("getattr", "hasattr"):
            return self._named(node)
        return None

    def _is_self(self, node: cst.BaseExpression) -> bool:
        name = dotted(node)
        if isinstance(node, cst.Call):
            return dotted(node.func) == "type" and len(node.args) == 1
        return name in ("self", "self.__class__", self.dataset.node.name.value)

    def _entry(self, node: cst.Subscript) -> str | None:
        """``n`` of ``vars(self)["n"]`` and ``self.__dict__["n"]``."""
        held = node.value
        of_vars = isinstance(held, cst.Call) and dotted(held.func) == "vars" and bool(held.args)
        if not of_vars and dotted(held) != "self.__dict__":
            return None
        key = node.slice[0].slice
        return _text(key.value) if isinstance(key, cst.Index) else None

    def _named(self, node: cst.Call) -> str | None:
        if len(node.args) < 2 or not self._is_self(node.args[0].value):
            return None
        return _text(node.args[1].value)

    def _set_by_name(self, node: cst.Call) -> str | None:
        """``n`` of ``setattr(self, "n", value)``."""
        if dotted(node.func) != "setattr" or len(node.args) != 3:
            return None
        return self._named(node)

    def _own_method(self, node: cst.Call) -> list[Function]:
        name = dotted(node.func) or ""
        if not name.startswith("self.") or name.count(".") != 1:
            return []
        found = self.dataset.find(name.removeprefix("self."))
        return [a for a in (found.atoms if found else ()) if isinstance(a, Function)]

    # ------------------------------------------------------------------ caches
    def _places(self, node: cst.CSTNode) -> set[str | None]:
        return {self._place(one) for one in walk(node)} - {None}

    def _asked(self, function: Function) -> Iterator[str]:
        """Places of which a test asks whether they are there, or hold something."""
        for node in walk(function.node.body):
            if isinstance(node, (cst.If, cst.IfExp)):
                yield from cast(Iterable[str], self._places(node.test))
            elif isinstance(node, cst.Try):
                yield from cast(Iterable[str], self._places(node.body))

    def _made_of_the_index(self, function: Function) -> set[str]:
        """The variables that are made of the index, or of others that are."""
        made = set(self.index)
        for _ in range(2):
            for node in walk(function.node.body):
                if isinstance(node, cst.Assign) and _names(node.value) & made:
                    made |= {n for one in node.targets for n in _names(one.target)} - {"self"}
        return made

    def _is_of_sample(self, node: cst.CSTNode) -> bool:
        return bool(_names(node) & self.of_sample)


def _is_a_default(given: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether this is ``self.file or open(path)``: what it was, where it is there."""
    if isinstance(given, cst.IfExp):
        return given.body.deep_equals(target) or given.orelse.deep_equals(target)
    joined = isinstance(given, cst.BooleanOperation) and isinstance(given.operator, cst.Or)
    return joined and cast(cst.BooleanOperation, given).left.deep_equals(target)


def _names(node: cst.CSTNode) -> set[str]:
    return {one.value for one in walk(node) if isinstance(one, cst.Name)}


def _text(node: cst.BaseExpression) -> str | None:
    if not isinstance(node, cst.SimpleString):
        return None
    held = node.evaluated_value
    return held if isinstance(held, str) else None
