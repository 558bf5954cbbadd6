"""The values that one round of a loop hands on to the next."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.plain_values import is_plain
from ddpify.planning.plan import Plan
from ddpify.planning.remade import Remade
from ddpify.planning.resumed_loops import (
    Gap,
    ResumedLoop,
    Resumption,
    attribute_targets,
    bound_names,
    chains,
    parameter_names,
    reached,
)
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_loader, is_model
from ddpify.understanding.liveness import assigned, live_in
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import parameters, statements
from ddpify.understanding.values import (
    Class,
    Function,
    Instance,
    Value,
)

_CLOCKS = ("time.", "datetime.", "timeit.")


def kept_values(plan: Plan, found: Resumption, loop: ResumedLoop) -> None:
    """Decide which names, and which attributes of self, snapshots of a loop hold."""
    _Inside(plan, found, loop).fill()


class _Inside:
    """The values that one loop's rounds hand on to each other."""

    def __init__(self, plan: Plan, found: Resumption, loop: ResumedLoop) -> None:
        self.plan = plan
        self.found = found
        self.loop = loop
        self.module = loop.module
        self.function = loop.module.function(loop.node)

    def fill(self) -> None:
        """Decide which names, and which attributes of self, to keep."""
        outermost = self._outermost()
        body = self.module.tree if self.function is None else self.function.body
        live = live_in(statements(body)).get(self.loop.node, frozenset())
        around = [n for n in self.module.structure.loops(self.loop.node) if n in self.found.loops]
        targets = assigned(self.loop.node.target).union(
            *(assigned(n.target) for n in around if isinstance(n, cst.For))
        )
        again = Remade(self.plan, self.found, self.loop, outermost)
        bound = [n for n in bound_names(outermost) if n.value in live and n.value not in targets]
        for name in dict.fromkeys(node.value for node in (*bound, *self._parameters(live))):
            nodes = [node for node in bound if node.value == name]
            if not again.name(name) and self._kept(name, nodes):
                self.loop.values.append(name)
        self._attributes()

    def _outermost(self) -> cst.CSTNode:
        """The code of this function that a restart leaves out in part: a loop, or all of it."""
        around = [n for n in self.module.structure.loops(self.loop.node) if n in self.found.loops]
        ways = chains(self.plan, Site(self.loop.node, self.module), ())
        depth = max(sum(node in self.found.loops for _, node in chain) for chain in ways)
        if self.function is not None and depth > len(around):
            return self.function
        return around[-1] if around else self.loop.node

    def _parameters(self, live: frozenset[str]) -> list[cst.Name]:
        """The function's parameters that are read in or after the loop."""
        if self.function is None:
            return []
        return [one.name for one in parameters(self.function) if one.name.value in live]

    def _kept(self, name: str, nodes: list[cst.Name]) -> bool:
        given = self._parameters(frozenset({name}))
        held = [self.plan.facts.values.get(node, Value()) for node in (*given, *nodes)]
        site = Site((*nodes, *given)[0], self.module)
        if any(_made_by_clock(self.plan, self.module, node) for node in nodes):
            return False
        if not all(is_plain(self.plan, value) for value in held):
            own = set(walk(self.loop.node))
            inside = [self.plan.facts.values.get(n, Value()) for n in nodes if n in own]
            if not any(map(_is_handed_on, inside)):
                return False
        if any(value.data for value in held):
            self.found.gaps.append(
                Gap(site, f"{name} is carried from batch to batch, and differs between ranks")
            )
            return False
        if not self._has_value_before(name):
            self.found.gaps.append(
                Gap(site, f"{name} has no value before the loop that carries it along")
            )
            return False
        return True

    def _has_value_before(self, name: str) -> bool:
        if self.function is not None and name in parameter_names(self.function):
            return True
        order = self.module.structure.order
        start = order[self.loop.node]
        scope = self.function if self.function is not None else self.module.tree
        return any(
            node.value == name and order[node] < start for node in bound_names(scope)
        ) or name in _global_names(scope)

    def _attributes(self) -> None:
        """Attributes of objects that the loop assigns numbers to, where they have a name here."""
        for node in reached(self.plan, self.loop):
            for target in attribute_targets(node):
                owner = self.plan.facts.values.get(target.value)
                held = self.plan.facts.values.get(target)
                own = [a for a in owner.atoms if isinstance(a, Instance)] if owner else []
                new = self.plan.facts.values.get(_assigned_value(node), held) or Value()
                if len(own) != 1 or is_model(own[0]) or not is_plain(self.plan, new):
                    continue
                if not _self_is(self.plan, self.module, self.function, own[0]):
                    continue
                code = f"self.{target.attr.value}"
                if code not in self.loop.values:
                    self.loop.values.append(code)


def _is_handed_on(value: Value) -> bool:
    """Whether a round may leave the next one another object: none that a loop is given, none that
    is the same whenever it is made."""
    return not value.atoms or any(
        isinstance(atom, Function)
        or (isinstance(atom, Instance) and not is_model(atom) and not is_loader(atom))
        for atom in value.atoms
    )


def _made_by_clock(plan: Plan, module: ModuleFile, name: cst.Name) -> bool:
    statement = module.statement(name)
    clocks = {n for name, sites in plan.facts.library_calls.items()
              if name.startswith(_CLOCKS) for n in sites}  # fmt: skip
    return any(node in clocks for node in walk(statement)) if clocks else False


def _global_names(scope: cst.CSTNode) -> set[str]:
    return {i.name.value for n in walk(scope) if isinstance(n, cst.Global) for i in n.names}


def _assigned_value(node: cst.CSTNode) -> cst.CSTNode:
    return getattr(node, "value", None) or node


def _self_is(
    plan: Plan, module: ModuleFile, function: cst.FunctionDef | None, owner: Instance
) -> bool:
    """Whether a function's first parameter is this object."""
    if function is None or not isinstance(owner.type, Class) or not function.params.params:
        return False
    return (
        function.params.params[0].name.value == "self"
        and module.structure.class_of(function) is owner.type.node
    )
