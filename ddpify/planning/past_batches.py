"""Batches that are used after their loader has given the next one, as a prefetcher's are.

Before the first line that uses such a batch, it is made the current one, which its rows tell. The
names that hold what came with these rows are of the current batch from there on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import collating, current_batch
from ddpify.understanding.choices import BatchSwitch
from ddpify.understanding.facts import LateUse, Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.liveness import assigned, reads
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import children, walk
from ddpify.understanding.syntax import code_of, displayed
from ddpify.understanding.values import UNKNOWN, Atom, Data, Instance, deep_atoms, value

if TYPE_CHECKING:
    from ddpify.planning.plan import Plan

_Binding = cst.BaseExpression
_COLLECTIONS = ("list", "dict", "tuple")


def go_back(plan: Plan, use: LateUse) -> bool:
    """Choose the outermost line of the calls in progress in which rows of the batch have a name.

    Whether a line was chosen that was not before.
    """
    for site in (*use.calls, use.site):
        statement = site.module.statement(site.node)
        if not isinstance(statement, cst.SimpleStatementLine) or not site.module.editable:
            continue
        if statement in plan.choices.switches:
            return False
        rows = next(_rows_in(plan, statement, use), None)
        if rows is not None:
            (name,) = reads(rows)
            names = frozenset(_Names(plan, Site(statement, site.module)).beside(name))
            switch = BatchSwitch(use.loaders, code_of(rows), name, names)
            plan.choices.switches[statement] = switch
            return True
    return False


def go_to_rows(plan: Plan, use: LateUse) -> None:
    """Choose a line at which a loader's latest batch becomes current, where rows alone name it."""
    for site in (*use.calls, use.site):
        statement = site.module.statement(site.node)
        if not isinstance(statement, cst.SimpleStatementLine) or not site.module.editable:
            continue
        names = _Names(plan, Site(statement, site.module))
        rows = next(names.rows_before(use), None)
        if rows is not None:
            plan.choices.switches.setdefault(statement, BatchSwitch(use.loaders, rows))
            return


def _rows_in(
    plan: Plan, statement: cst.SimpleStatementLine, use: LateUse
) -> Iterator[cst.Name | cst.Subscript]:
    """Names, and entries of what names hold, that are rows of an earlier batch: one a sample.

    An entry is told by a literal: what another name says may not be known before the statement.
    Nor is what the statement gives a name to.
    """
    read = reads(statement)
    for node in walk(statement):
        entry = isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name)
        if not isinstance(node, cst.Name) and not (entry and len(reads(node)) == 1):
            continue
        held = plan.facts.values.get(node, UNKNOWN)
        past = any(data.past for data in held.data) and reads(node) <= read
        if past and all(_is_row_each(data, use) for data in held.data):
            yield node  # type: ignore[misc]


def _is_row_each(rows: Data, use: LateUse) -> bool:
    listed = rows.form is Layout.BATCH and all(map(collating.puts_batch_first, rows.loaders))
    form = rows.form is Layout.TENSOR or listed
    plain = rows.placement is Placement.SHARD and form and rows.dim == 0
    several = rows.several or rows.flat or rows.opaque
    return plain and not several and rows.loaders <= use.loaders


class _Names:
    """Which names of a function hold what came at once, where one of its statements begins."""

    def __init__(self, plan: Plan, site: Site) -> None:
        self.plan, self.site = plan, site
        structure = site.module.structure
        self.loop = next(iter(structure.loops(site.node)), None)
        within = structure.function(site.node) or structure.tree
        self.bindings: dict[str, list[_Binding]] = {}
        for node in _of_one_scope(within):
            for name, made_of in self._in_turn(node) or _bound(node):
                self.bindings.setdefault(name, []).append(made_of)

    def _in_turn(self, node: cst.CSTNode) -> list[tuple[str, _Binding]]:
        """The names that get batches which came in turn, each batch as from a place of its own."""
        if isinstance(node, cst.Assign) and self._gives_several(node.value):
            each = [part for one in node.targets for part in displayed(one.target) or ()]
        elif isinstance(node, cst.For):
            each = [part for part in displayed(node.target) or () if self._may_be_earlier(part)]
            each = [] if len(each) < 2 or self._gives_one(node) else each
        else:
            return []
        apart = {part: cst.Ellipsis() for part in each}
        return [(name, apart[part]) for part in each for name in assigned(part)]

    def _gives_several(self, node: cst.BaseExpression) -> bool:
        held = self.plan.facts.values.get(node, UNKNOWN)
        return any(isinstance(one, Instance) for one in held.atoms) and self._are_in_turn(node)

    def _are_in_turn(self, node: cst.BaseExpression) -> bool:
        return current_batch.are_in_turn(self.plan.facts.values.get(node, UNKNOWN))

    def _may_be_earlier(self, target: cst.BaseExpression) -> bool:
        """Whether names of a target hold rows of the current batch or of an earlier one."""
        return any(
            self._are_in_turn(part)
            for part in (target, *walk(target))
            if isinstance(part, cst.Name)
        )

    def _gives_one(self, loop: cst.For) -> bool:
        """Whether a loop goes through batches that came in turn, one in each round."""
        return self._are_in_turn(loop.iter) and not any(
            map(displayed, displayed(loop.target) or ())
        )

    def beside(self, name: str) -> Iterator[str]:
        """The names that hold what came with what this name holds."""
        root = self._root(name)
        yield from (other for other in self.bindings if self._root(other) == root)

    def rows_before(self, use: LateUse) -> Iterator[str]:
        """The names that get rows of a batch, one a sample, before the statement in its block."""
        for node in (part for one in self._before() for part in walk(one)):
            if isinstance(node, cst.Name) and len(self.bindings.get(node.value, ())) == 1:
                held = self.plan.facts.values.get(node, UNKNOWN)
                now = held.data and not any(data.past for data in held.data)
                if now and all(_is_row_each(data, use) for data in held.data):
                    yield node.value

    def _before(self) -> Iterator[cst.CSTNode]:
        """The statements before this one in its block, and the target of a loop that this is of."""
        parents = self.site.module.parents
        block = parents[self.site.node]
        loop = parents.get(block)
        if isinstance(loop, cst.For):
            yield loop.target
        if isinstance(block, (cst.IndentedBlock, cst.Module)):
            yield from itertools.takewhile(lambda one: one is not self.site.node, block.body)

    def _root(self, name: str, seen: frozenset[str] = frozenset()) -> object:
        """Where a name, or what it is made of alone, gets what it holds; a parameter itself."""
        own = [node for node in self.bindings.get(name, ()) if name not in reads(node)]
        sources = {source for node in own for source in self._sources(node)}
        if len(sources) == 1 and not sources & seen:
            (source,) = sources
            if all(self._sources(node) == sources and self._follows(node, source) for node in own):
                return self._root(source, seen | {name})
        return frozenset(own) or name

    def _sources(self, node: _Binding) -> set[str]:
        """The names of earlier batches' rows that a binding is made of."""
        return {
            part.value
            for part in walk(node)
            if isinstance(part, cst.Name) and part.value in self.bindings
            if self._holds_rows(part) and not self._gives_several(part)
        }

    def _holds_rows(self, node: cst.Name) -> bool:
        held = self.plan.facts.values.get(node, UNKNOWN)
        plain = value(*(a for a in held.atoms if not _has_state(a)))
        return any(isinstance(a, Data) and a.placement.local for a in deep_atoms(plain))

    def _follows(self, node: _Binding, source: str) -> bool:
        """Whether a binding is made anew of its source in each round, which stays as it is then."""
        module = self.site.module
        if next(iter(module.structure.loops(node)), None) is not self.loop:
            return False
        here, at = module.line(self.site.node), module.line(node)
        between = (module.line(one) for one in self.bindings[source])
        return at < here and not any(at < line < here for line in between)


def _has_state(atom: Atom) -> bool:
    """Whether this is an object that may give another batch each time, as a prefetcher does."""
    return isinstance(atom, Instance) and atom.type not in _COLLECTIONS


def _of_one_scope(within: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A function's nodes, or a module's, without those of functions and classes in it."""
    for node in children(within):
        if not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield node
            yield from _of_one_scope(node)


def _bound(node: cst.CSTNode) -> Iterator[tuple[str, _Binding]]:
    """The names that a statement binds, each with the expression that gives what it holds."""
    if isinstance(node, cst.Assign):
        for target in node.targets:
            yield from _paired(target.target, node.value)
    elif isinstance(node, (cst.AugAssign, cst.AnnAssign)) and node.value is not None:
        yield from _paired(node.target, node.value)
    elif isinstance(node, cst.For):
        yield from _paired(node.target, node.iter)
    elif isinstance(node, cst.NamedExpr):
        yield from _paired(node.target, node.value)


def _paired(target: cst.BaseExpression, made_of: _Binding) -> Iterator[tuple[str, _Binding]]:
    """Names by what they get: of ``a, b = b, next(batches)``, each its own part."""
    each = (cst.Tuple, cst.List)
    if isinstance(target, each) and isinstance(made_of, each):
        for one, part in zip(target.elements, made_of.elements, strict=False):
            yield from _paired(one.value, part.value)
    else:
        yield from ((name, made_of) for name in assigned(target))
