"""How code is reached: its conditions, callers and loops, and what runs around it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.facts import Event, Site
from ddpify.understanding.language.overloads import fails
from ddpify.understanding.libraries.object_kinds import NO_GRAD
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Instance

if TYPE_CHECKING:
    from ddpify.lint.scripts.sharded_values import Reading


class Ways:
    """Questions about what leads to a node."""

    def __init__(self, script: Reading) -> None:
        self.script = script

    def guards(self, node: cst.CSTNode) -> Sequence[Guard]:
        """The conditions under which a node is reached inside its function."""
        return self.script.structure_of(node).guards(node)

    def branches(self, node: cst.CSTNode) -> frozenset[tuple[str, bool]]:
        """These conditions as code, each with the answer that leads to the node."""
        return frozenset((code_of(one.test), one.positive) for one in self.guards(node))

    def callers(self, function: cst.FunctionDef) -> list[Site]:
        """The places in the project that call a function, and do not fail before it begins."""
        return sorted(
            (one for one in self.script.facts.callers.get(function, ()) if not self._fails(one)),
            key=lambda s: (
                str(s.module.path),
                self.script.structures[s.module].order.get(s.node, 0),
            ),
        )

    def _fails(self, site: Site) -> bool:
        called = site.node.func if isinstance(site.node, cst.Call) else site.node
        return fails(site.node, self.script.value(called).atoms)

    def holds_on_every_way(
        self,
        node: cst.CSTNode,
        holds: Callable[[cst.CSTNode], bool],
        *,
        begins: Collection[cst.CSTNode] = (),
        uncalled: bool = False,
    ) -> bool:
        """Whether something holds of a node, or of some call on each way by which it is reached.

        A function that calls itself is no further way.

        Args:
            node: What is reached.
            holds: The question, asked of the node and of the calls that lead to its function.
            begins: Functions whose calls are no part of a way, as those that a rank starts with.
            uncalled: The answer for a function that nothing calls.
        """
        todo, seen = [node], set[cst.CSTNode]()
        while todo:
            one = todo.pop()
            if holds(one):
                continue
            function = self.script.structure_of(one).function(one)
            if function is None or function in begins:
                return False
            if function not in seen:
                seen.add(function)
                callers = self.callers(function)
                if not callers and not uncalled:
                    return False
                todo += [site.node for site in callers]
        return True

    def ways_to(self, node: cst.CSTNode, begins: Collection[cst.CSTNode] = ()) -> list[cst.CSTNode]:
        """A node and the calls, one in the other, by which its function is reached."""
        found = {node: None}
        todo = [node]
        while todo:
            one = todo.pop()
            function = self.script.structure_of(one).function(one)
            if function is None or function in begins:
                continue
            sites = self.callers(function)
            todo += [site.node for site in sites if site.node not in found]
            found |= dict.fromkeys(site.node for site in sites)
        return list(found)

    def locations(self, node: cst.Name | cst.Attribute) -> set[Location]:
        """Where a name or an attribute keeps its value, whatever that is."""
        names, module = self.script.flow.names, self.script.owners.get(node, self.script.module)
        if isinstance(node, cst.Name):
            return set(names.of_name(node, module))
        return set(names.of_attribute(node, module))

    def around(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
        """The loops around a node, in its function and in those that call it."""
        ways = self.ways_to(node)
        loops = (loop for one in ways for loop in self.script.structure_of(one).loops(one))
        return list(dict.fromkeys(loops))

    def is_within(self, node: cst.CSTNode, *names: str) -> bool:
        """Whether a node only runs inside ``with`` blocks of these library functions."""

        def holds(one: cst.CSTNode) -> bool:
            return any(
                isinstance(item.item, cst.Call) and self.script.names(item.item.func) & {*names}
                for above in self.script.structure_of(one).up(one)
                for item in (above.items if isinstance(above, cst.With) else ())
            )

        return self.holds_on_every_way(node, holds)

    def in_try(self, node: cst.CSTNode) -> bool:
        """Whether an error here may be taken by a `try` in the same file."""
        return any(isinstance(above, cst.Try) for above in self.script.structure_of(node).up(node))

    def without_grad(self, node: cst.CSTNode) -> bool:
        """Whether a node only runs where no graph is recorded."""
        return self.holds_on_every_way(node, self._is_without_grad)

    def _is_without_grad(self, node: cst.CSTNode) -> bool:
        """Whether a block around a node in its function, or a decorator of that, records none."""
        for above in self.script.structure_of(node).up(node):
            if isinstance(above, cst.With) and any(
                isinstance(a, Instance) and a.type in NO_GRAD
                for item in above.items
                for a in self.script.value(item.item).atoms
            ):
                return True
            if isinstance(above, cst.FunctionDef):
                return any(map(self._switches_grad_off, above.decorators))
        return False

    def records_graph(self, event: Event) -> bool:
        """Whether a model is called where a graph is recorded: an event may not tell the calls of
        its function apart, of which an evaluation makes some.
        """
        return event.gradient and not self.without_grad(event.site.node)

    def _switches_grad_off(self, one: cst.Decorator) -> bool:
        target = one.decorator
        names = self.script.names(target.func if isinstance(target, cst.Call) else target)
        return bool(names & set(NO_GRAD))
