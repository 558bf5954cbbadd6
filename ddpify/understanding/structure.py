"""Where things stand in a file: order, enclosing blocks, loops, and the conditions around them.

One traversal over the fields that carry meaning (no white space, commas or parentheses) answers
all of it; LibCST's own ``children`` and metadata providers cost several times more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache, cached_property
from itertools import islice
from typing import Any, TypeVar, overload

import libcst as cst

from ddpify.records import record
from ddpify.understanding.nodes import use_own_answers
from ddpify.understanding.syntax import UNPACKED, code_of, dotted, is_main_guard

use_own_answers()

Node = TypeVar("Node", bound=cst.CSTNode)
Other = TypeVar("Other", bound=cst.CSTNode)

Given = tuple[cst.Assign, cst.BaseExpression | None]  # what by; None where that is not told apart
Block = tuple[cst.CSTNode, cst.CSTNode]  # and the child of it in which a node stands
_BLOCKS = frozenset(
    {cst.For, cst.While, cst.If, cst.Else, cst.With, cst.FunctionDef, cst.Lambda, cst.ClassDef}
)
_EXITS = ("sys.exit", "exit", "quit", "os._exit")
_SILENT = (
    "whitespace", "comma", "semicolon", "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace",
    "leading_lines", "lines_after", "header", "footer", "trailing", "colon",
)  # fmt: skip


@record
class Guard:
    """A condition that holds (or, with ``positive`` false, does not hold) where a node stands.

    ``left_early`` marks the condition of an earlier ``if ...: return`` of the same block.
    """

    test: cst.BaseExpression
    positive: bool
    statement: cst.CSTNode
    left_early: bool = False


class Structure:
    """The nodes of one tree, in source order, with their parents."""

    def __init__(self, tree: cst.Module) -> None:
        self.tree = tree
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.order: dict[cst.CSTNode, int] = {}
        self._by_type: dict[type, list[cst.CSTNode]] = {}
        self._blocks: dict[cst.CSTNode, Sequence[Block]] = {}
        self._guards: dict[cst.CSTNode, Sequence[Guard]] = {}
        self._exits: dict[cst.CSTNode, list[Guard]] = {}  # of each block
        self._index()

    def _index(self) -> None:
        stack: list[cst.CSTNode] = [self.tree]
        while stack:
            node = stack.pop()
            self.order[node] = len(self.order)
            self._by_type.setdefault(type(node), []).append(node)
            below = children(node)
            for child in below:
                self.parents[child] = node
            stack.extend(reversed(below))

    @overload
    def all(self, one: type[Node], /) -> list[Node]: ...
    @overload
    def all(self, one: type[Node], two: type[Other], /) -> list[Node | Other]: ...
    @overload
    def all(self, *types: type[cst.CSTNode]) -> list[Any]: ...
    def all(self, *types: type[cst.CSTNode]) -> list[Any]:
        """All nodes of these types, in source order."""
        found = [node for kind in types for node in self._by_type.get(kind, ())]
        return sorted(found, key=self.order.__getitem__) if len(types) > 1 else found

    @cached_property
    def method_calls(self) -> dict[str, list[cst.Call]]:
        """The calls ``x.name(...)`` by their names, in source order."""
        found: dict[str, list[cst.Call]] = {}
        for call in self.all(cst.Call):
            if isinstance(call.func, cst.Attribute):
                found.setdefault(call.func.attr.value, []).append(call)
        return found

    @cached_property
    def generators(self) -> set[cst.CSTNode]:
        """The functions that yield."""
        scopes = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
        around = [
            next((n for n in self.up(y) if isinstance(n, scopes)), y) for y in self.all(cst.Yield)
        ]
        return {one for one in around if not isinstance(one, (cst.ClassDef, cst.Yield))}

    @cached_property
    def holding_backward(self) -> set[cst.CSTNode]:
        """What encloses a ``.backward``: it may train."""
        named = (one for one in self.all(cst.Attribute) if one.attr.value == "backward")
        return {around for one in named for around in self.up(one)}

    @cached_property
    def imported(self) -> dict[str, str]:
        """The names that imports bind, each with what it is there: "np" with "numpy"."""
        found = {}
        for one in self.all(cst.Import, cst.ImportFrom):
            module = getattr(one, "module", None)
            within = f"{dotted(module) or ''}." if module is not None else ""
            for alias in one.names if not isinstance(one.names, cst.ImportStar) else ():
                name = dotted(alias.name) or ""
                bound = alias.asname.name if alias.asname is not None else None
                short = name if within else name.split(".")[0]
                found[dotted(bound) or "" if bound is not None else short] = within + (
                    name if bound is not None else short
                )
        return found

    @cached_property
    def arguments_given(self) -> frozenset[tuple[str, str | int]]:
        """The last names of what calls call, each with the name or position of an argument."""
        named = ((call, dotted(call.func)) for call in self.all(cst.Call))
        return frozenset(
            (name.rsplit(".", 1)[-1], place if one.keyword is None else one.keyword.value)
            for call, name in named
            if name
            for place, one in enumerate(call.args)
        )

    def up(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What encloses a node, from the inside out."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def blocks(self, node: cst.CSTNode) -> Sequence[Block]:
        """The loops, conditions, contexts, functions and classes around a node, innermost first."""
        known = self._blocks.get(node)
        if known is None:
            above = self.parents.get(node)
            known = self.blocks(above) if above is not None else ()
            if above is not None and type(above) in _BLOCKS:
                known = ((above, node), *known)
            self._blocks[node] = known
        return known

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The innermost function around a node."""
        return next((n for n, _ in self.blocks(node) if type(n) is cst.FunctionDef), None)

    @cached_property
    def captured(self) -> dict[cst.CSTNode, frozenset[str]]:
        """For each function that has others inside, the names that are read in those."""
        found: dict[cst.CSTNode, set[str]] = {}
        for name in self.all(cst.Name):
            around = [n for n, _ in self.blocks(name) if type(n) is cst.FunctionDef]
            lambdas = any(isinstance(n, cst.Lambda) for n in self.up(name))
            for outer in around if lambdas else around[1:]:
                found.setdefault(outer, set()).add(name.value)
        return {outer: frozenset(names) for outer, names in found.items()}

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The innermost class around a node."""
        return next((n for n, _ in self.blocks(node) if type(n) is cst.ClassDef), None)

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement that a node stands in."""
        if isinstance(node, cst.BaseStatement):
            return node
        return next((n for n in self.up(node) if isinstance(n, cst.BaseStatement)), node)

    def loops(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
        """The loops around a node inside its function, innermost first."""
        found: list[cst.For | cst.While] = []
        for above, below in self.blocks(node):
            if type(above) is cst.FunctionDef or type(above) is cst.Lambda:
                break
            if (type(above) is cst.For or type(above) is cst.While) and below is above.body:
                found.append(above)
        return found

    def inside(self, node: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
        """All nodes of a type at or below a node, in source order, nested functions included."""
        alike = self._by_type.get(kind, [])
        first = bisect_left(alike, self.order[node], key=self.order.__getitem__)
        for one in islice(alike, first, None):
            if self.order[one] > self._ends[node]:
                break
            yield one  # type: ignore[misc]

    def given(self, target: cst.BaseExpression, within: cst.CSTNode) -> list[Given]:
        """The assignments to a target at or below a node, in source order."""
        first, last = self.order[within], self._ends[within]
        found = self._given.get(_code(target), ())
        return [one for one in found if first <= self.order[one[0]] <= last]

    @cached_property
    def _given(self) -> dict[str, list[Given]]:
        """All assignments, by the code of what they are to."""
        found: dict[str, list[Given]] = {}
        for one in self.all(cst.Assign):
            for target in (target.target for target in one.targets):
                for part, value in _each_given(target, one.value):
                    found.setdefault(_code(part), []).append((one, value))
        return found

    def items_set(self, owner: cst.BaseExpression, within: cst.CSTNode) -> list[cst.Subscript]:
        """The items ``owner[..]`` that are assigned to at or below a node, in source order."""
        first, last = self.order[within], self._ends[within]
        found = self._items_set.get(_code(owner), ())
        return [one for one in found if first <= self.order[one] <= last]

    @cached_property
    def _items_set(self) -> dict[str, list[cst.Subscript]]:
        """All items that are assigned to, by the code of what they are of."""
        found: dict[str, list[cst.Subscript]] = {}
        for one in self.all(cst.AssignTarget):
            if isinstance(one.target, cst.Subscript):
                found.setdefault(_code(one.target.value), []).append(one.target)
        return found

    def below(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """A node and all below it, in source order, as :func:`walk` gives them."""
        return self._nodes[self.order[node] : self._ends[node] + 1]

    @cached_property
    def _nodes(self) -> list[cst.CSTNode]:
        return list(self.order)

    @cached_property
    def _ends(self) -> dict[cst.CSTNode, int]:
        """The place in the order of the last node at or below each node."""
        ends = dict(self.order)
        for node in reversed(self.order):
            above = self.parents.get(node)
            if above is not None and ends[above] < ends[node]:
                ends[above] = ends[node]
        return ends

    def guards(self, node: cst.CSTNode) -> Sequence[Guard]:
        """The conditions under which a node is reached inside its function, innermost first.

        That a file is run and not imported is none.
        """
        known = self._guards.get(node)
        if known is None:
            known = self._guards[node] = self._find_guards(node)
        return known

    def are_exclusive(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether the conditions under which two nodes are reached contradict each other."""
        excluded = {(guard.statement, not guard.positive) for guard in self.guards(other)}
        return any((guard.statement, guard.positive) in excluded for guard in self.guards(one))

    def _find_guards(self, node: cst.CSTNode) -> Sequence[Guard]:
        above = self.parents.get(node)
        if above is None:
            return ()
        own = (*_own_guard(above, node), *self._left_before(above, node))
        if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            return own
        around = self.guards(above)
        return (*own, *around) if own else around

    def _left_before(self, block: cst.CSTNode, statement: cst.CSTNode) -> list[Guard]:
        exits = self._exits.get(block)
        if exits is None:
            exits = self._exits[block] = list(_early_exits(block))
        end = self.order[statement]
        return [guard for guard in exits if self.order[guard.statement] < end]


def _each_given(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
    """A target, and each of several in it, with what it is given."""
    yield target, value
    if isinstance(target, UNPACKED):
        values = value.elements if isinstance(value, cst.Tuple) else ()
        for place, part in enumerate(target.elements):
            yield part.value, values[place].value if place < len(values) else None


def _code(target: cst.BaseExpression) -> str:
    """The source text of what is assigned to: mostly a name, of which making it is not dear."""
    return dotted(target) or code_of(target)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The children that carry meaning, in source order."""
    found: list[cst.CSTNode] = []
    for name in _names(type(node)):
        held = getattr(node, name)
        kind = type(held)
        if kind is tuple or kind is list:
            found += [one for one in held if _IS_NODE[type(one)]]
        elif _IS_NODE[kind]:
            found.append(held)
    return found


class _NodeTypes(dict[type, bool]):
    """Whether a type is a node's: asked once each, since abstract classes are slow to ask."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, cst.CSTNode)
        return self[kind]


_IS_NODE = _NodeTypes()


@cache
def _names(kind: type) -> tuple[str, ...]:
    held = [f for f in fields(kind) if f.type not in (str, bool)]
    names = [f.name for f in held if not f.name.startswith(_SILENT)]
    if issubclass(kind, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        names.sort(key=lambda name: name != "for_in")  # its names are bound before use
    return tuple(names)


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it that carry meaning, in source order."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(children(one)))


def walk_here(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Like :func:`walk`, without the bodies of functions and classes defined below the node."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        if one is not node and isinstance(one, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            continue
        stack.extend(reversed(children(one)))


def _own_guard(above: cst.CSTNode, below: cst.CSTNode) -> Iterator[Guard]:
    if isinstance(above, (cst.If, cst.IfExp)):
        if below is above.body and not is_main_guard(above.test):
            yield Guard(above.test, True, above)
        elif below is above.orelse:
            yield Guard(above.test, False, above)
    elif isinstance(above, cst.While) and below is above.body:
        yield Guard(above.test, True, above)
    elif isinstance(above, cst.Match) and below is not above.subject:
        yield Guard(above.subject, True, above)
    elif isinstance(above, cst.BooleanOperation) and below is above.right:
        yield Guard(above.left, isinstance(above.operator, cst.And), above)


def _early_exits(block: cst.CSTNode) -> Iterator[Guard]:
    """``if condition: return`` among the statements of a block, with all its cases."""
    for statement in block.body if isinstance(block, (cst.IndentedBlock, cst.Module)) else ():
        case: cst.CSTNode | None = statement
        while isinstance(case, cst.If):
            if leaves(case.body):
                yield Guard(case.test, False, case, left_early=True)
            elif isinstance(case.orelse, cst.Else) and leaves(case.orelse.body):
                yield Guard(case.test, True, case, left_early=True)
            else:
                break
            case = case.orelse


def leaves(body: cst.BaseSuite) -> bool:
    """Whether a block surely ends with return, continue, break, raise or the end of the process."""
    last: cst.CSTNode | None = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
        return dotted(last.value.func) in _EXITS
    return isinstance(last, (cst.Return, cst.Continue, cst.Break, cst.Raise))


def rest_of_block(structure: Structure, statement: cst.If) -> list[cst.CSTNode]:
    """The statements after one, in the block where it and the cases before it stand."""
    below: cst.CSTNode = statement
    for above in structure.up(statement):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            rest: list[cst.CSTNode] = list(above.body)
            return rest[rest.index(below) + 1 :]
        if not isinstance(above, cst.If) or above.orelse is not below:
            break
        below = above
    return []
