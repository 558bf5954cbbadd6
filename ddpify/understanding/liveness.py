"""Which names a round of a loop takes over from the code before it.

A backward analysis over the statements of one function: a name is live at a point if some way
from there reads it before it is assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import libcst as cst

from ddpify.understanding.structure import children, walk
from ddpify.understanding.syntax import names_of, statements

Names = frozenset[str]
_NONE: Names = frozenset()
_ASSIGNING = (cst.Assign, cst.AnnAssign, cst.AugAssign)


@dataclass(eq=False, repr=False, slots=True)
class Liveness:
    """The names that are live where the body of each ``for`` and ``while`` starts."""

    additions: bool = True  # whether ``x += y`` reads x
    at_body: dict[cst.CSTNode, Names] = field(default_factory=dict)
    after_with: dict[cst.CSTNode, Names] = field(default_factory=dict)
    after_loop: dict[cst.CSTNode, Names] = field(default_factory=dict)
    _breaks: list[Names] = field(default_factory=list)
    _continues: list[Names] = field(default_factory=list)

    def before(self, body: Iterable[cst.BaseStatement], after: Names) -> Names:
        """The names live before some statements, from those live after them."""
        for statement in reversed(list(body)):
            after = self._before_one(statement, after)
        return after

    def _before_one(self, node: cst.BaseStatement, after: Names) -> Names:
        if isinstance(node, cst.SimpleStatementLine):
            for small in reversed(node.body):
                after = self._before_small(small, after)
            return after
        if isinstance(node, cst.If):
            other = self._before_else(node.orelse, after)
            return reads(node.test) | self._before_body(node.body, after) | other
        if isinstance(node, (cst.For, cst.While)):
            return self._before_loop(node, after)
        if isinstance(node, cst.With):
            return self._before_with(node, after)
        if isinstance(node, (cst.Try, cst.TryStar)):
            return self._before_try(node, after)
        if isinstance(node, cst.Match):
            cases = (reads(c) | self._before_body(c.body, after) for c in node.cases)
            return reads(node.subject).union(after, *cases)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return (after - {node.name.value}) | reads(node)
        return after | reads(node)

    def _before_small(self, node: cst.BaseSmallStatement, after: Names) -> Names:
        if isinstance(node, cst.Break):
            return _innermost(self._breaks)
        if isinstance(node, cst.Continue):
            return _innermost(self._continues)
        if isinstance(node, (cst.Return, cst.Raise)):
            return reads(node)
        if isinstance(node, cst.Assign):
            return (after - assigned(node)) | reads(node)
        if isinstance(node, cst.AnnAssign):
            gone = assigned(node) if node.value is not None else _NONE
            return (after - gone) | reads(node)
        if isinstance(node, cst.AugAssign) and not self.additions:
            return (after - assigned(node)) | reads(node.value)
        return after | reads(node)

    def _before_body(self, body: cst.BaseSuite, after: Names) -> Names:
        return self.before(statements(body), after)

    def _before_else(self, node: cst.If | cst.Else | None, after: Names) -> Names:
        if node is None:
            return after
        if isinstance(node, cst.If):
            return self._before_one(node, after)
        return self._before_body(node.body, after)

    def _before_loop(self, node: cst.For | cst.While, after: Names) -> Names:
        self.after_loop[node] = self.after_loop.get(node, _NONE) | after
        ended = self._before_else(node.orelse, after)
        head = ended if isinstance(node, cst.For) else ended | reads(node.test)
        targets = assigned(node.target) if isinstance(node, cst.For) else _NONE
        while True:
            self._breaks.append(after)
            self._continues.append(head)
            start = self._before_body(node.body, head)
            self._breaks.pop()
            self._continues.pop()
            self.at_body[node] = start
            grown = head | (start - targets)
            if grown == head:
                break
            head = grown
        return head | (reads(node.iter) if isinstance(node, cst.For) else _NONE)

    def _before_with(self, node: cst.With, after: Names) -> Names:
        self.after_with[node] = self.after_with.get(node, _NONE) | after
        inside = self._before_body(node.body, after)
        for item in reversed(node.items):
            if item.asname is not None:
                inside = inside - assigned(item.asname.name)
            inside = inside | reads(item.item)
        return inside

    def _before_try(self, node: cst.Try | cst.TryStar, after: Names) -> Names:
        last = after if node.finalbody is None else self._before_body(node.finalbody.body, after)
        handled = last.union(*(self._before_body(h.body, last) for h in node.handlers))
        body = self._before_body(node.body, self._before_else(node.orelse, last) | handled)
        return body | handled  # any statement of the body may be the last that runs


def _innermost(ways: list[Names]) -> Names:
    """Where the loop around is no part of what is looked at, nothing of that follows."""
    return ways[-1] if ways else _NONE


def live_in(body: Iterable[cst.BaseStatement]) -> dict[cst.CSTNode, Names]:
    """The names live at the start of each loop's body, in a function with this body."""
    analysis = Liveness()
    analysis.before(body, _NONE)
    return analysis.at_body


def read_behind(body: Iterable[cst.BaseStatement], block: cst.With) -> Names:
    """The names that a ``with`` binds and that the statements behind it read, in such a body."""
    analysis = Liveness()
    analysis.before(body, _NONE)
    bound = (assigned(item.asname.name) for item in block.items if item.asname is not None)
    return _NONE.union(*bound) & analysis.after_with.get(block, _NONE)


def bound_in(loop: cst.For) -> Names:
    """The names that a loop gives a value to, as its targets or in its body."""
    targets = (one.target for one in walk(loop) if isinstance(one, (cst.For, cst.NamedExpr)))
    set_ = (assigned(one) for one in walk(loop.body) if isinstance(one, _ASSIGNING))
    return _NONE.union(*map(assigned, targets), *set_)


def left_behind(body: Iterable[cst.BaseStatement], loop: cst.For) -> Names:
    """The names that a loop binds and that statements behind it read, in a function's body."""
    analysis = Liveness()
    analysis.before(body, _NONE)
    return bound_in(loop) & analysis.after_loop.get(loop, _NONE)


@lru_cache(maxsize=256)
def taken_over(loop: cst.For | cst.While, *, additions: bool = True) -> Names:
    """The names that a round of a loop may read from before it: its test and body alone count.

    Without ``additions``, adding to a name does not count as reading it.
    """
    analysis = Liveness(additions)
    analysis.before([loop], _NONE)
    found = analysis.at_body[loop]
    if isinstance(loop, cst.While):
        return found | reads(loop.test)
    return found - assigned(loop.target)


def assigned(node: cst.CSTNode) -> Names:
    """The plain names that an assignment, or a target, gives a value to."""
    if isinstance(node, cst.Assign):
        return _NONE.union(*(assigned(t.target) for t in node.targets))
    if isinstance(node, (cst.AnnAssign, cst.AugAssign)):
        return assigned(node.target)
    if isinstance(node, cst.BaseExpression):
        return frozenset(_target_names(node))
    return _NONE


def _target_names(node: cst.BaseExpression) -> Iterator[str]:
    for one in names_of(node):
        held = one.value if isinstance(one, cst.StarredElement) else one
        if isinstance(held, cst.Name):
            yield held.value


def reads(node: cst.CSTNode) -> Names:
    """The names that code reads; those that it binds for itself alone are not among them."""
    return frozenset(_reads(node, _NONE))


_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)


def _reads(node: Any, own: Names) -> Iterator[str]:
    kind: type = type(node)  # to ask for an abstract class with isinstance() takes longer
    if kind is cst.Name:
        if node.value not in own:
            yield node.value
        return
    if kind is cst.Attribute or kind is cst.Arg:
        yield from _reads(node.value, own)
        return
    if kind is cst.Assign or kind is cst.AnnAssign:
        yield from _assignment_reads(node, own)
        return
    if kind in _COMPREHENSIONS:
        own = own | _comprehension_names(node.for_in)
    elif kind is cst.Lambda or kind is cst.FunctionDef:
        own = own | frozenset(_parameters(node.params))
    for child in children(node):
        yield from _reads(child, own)


def _assignment_reads(node: cst.Assign | cst.AnnAssign, own: Names) -> Iterator[str]:
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
    for target in targets:
        for one in names_of(target):
            if not isinstance(one, (cst.Name, cst.StarredElement)):  # x in x.y = ..., x[i] = ...
                yield from _reads(one, own)
    if node.value is not None:
        yield from _reads(node.value, own)


def _comprehension_names(node: cst.CompFor | None) -> Names:
    found = _NONE
    while node is not None:
        found, node = found | assigned(node.target), node.inner_for_in
    return found


def _parameters(node: cst.Parameters) -> Iterator[str]:
    stars = [p for p in (node.star_arg, node.star_kwarg) if isinstance(p, cst.Param)]
    for parameter in (*node.params, *node.kwonly_params, *node.posonly_params, *stars):
        yield parameter.name.value
