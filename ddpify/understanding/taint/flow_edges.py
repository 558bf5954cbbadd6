"""Moves: each assignment, argument and result that takes a value from one place to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.libraries import command_line_options
from ddpify.understanding.libraries.distributed import (
    DDP,
    IN_PLACE,
    INIT_GROUP,
    REDUCING,
    REDUCING_NAMES,
    library_names,
)
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import UNPACKED, dotted
from ddpify.understanding.taint import sources
from ddpify.understanding.taint.call_graph import (
    already_given,
    called,
    fields,
    functions_in,
    initialisers,
    passed,
    wrapped_forwards,
)
from ddpify.understanding.taint.constant_keys import constant_key, entry_in
from ddpify.understanding.taint.copies import is_copy
from ddpify.understanding.taint.dependencies import Dependencies, Dependency
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.taint.spawning import spawned_arguments, spawned_ranks
from ddpify.understanding.taint.starred_arguments import collected, item_of, passed_on
from ddpify.understanding.taint.taken_apart import elements, side_by_side
from ddpify.understanding.values import (
    Class,
    Device,
    Function,
    Instance,
    value,
)

_GPUS = "device_ids"
_KEEPERS = frozenset("append extend add update insert put appendleft".split())
_OF_PYTHON = ("builtins.", "itertools.", "functools.", "collections.")


@dataclass(eq=False, repr=False, slots=True)
class FlowEdge:
    """A value that goes from an expression into slots.

    ``adds`` for ``+=``, ``append`` and what goes on from the value before: ``x = (x * i + y) / n``.
    """

    targets: list[Location]
    source: list[Dependency]
    node: cst.CSTNode
    adds: bool = False
    passes: bool = False  # an argument that goes into a parameter
    offers: bool = False  # the default of an option, in whose place another may be given
    value: cst.BaseExpression | None = None  # the expression that is assigned or passed
    key: str | None = None  # the one entry of the targets that is set
    part: bool = False  # one of several things that a display puts together


class Collector:
    """Collects the moves of one file."""

    def __init__(
        self, dependencies: Dependencies, widths: dict[object, int], module: ModuleFile
    ) -> None:
        self.facts, self.locations = dependencies.facts, dependencies.locations
        self.dependencies = dependencies
        self.widths = widths
        self.module = module
        self.structure = dependencies.structures[module]
        self.edges: list[FlowEdge] = []
        self._pairs: set[Location] = set()
        self.sanitized: dict[
            Location, list[cst.CSTNode]
        ] = {}  # what passes through a collective, where
        self.in_place: set[Location] = set()  # what a collective changes where it is
        self.entries: set[tuple[Location, str]] = set()  # of which it changes one entry, by its key
        self.copied: list[
            tuple[set[Location], set[Location]]
        ] = []  # from the second into the first
        # What a group is told to be the rank, and the number of ranks; a wrapper, its GPU.
        self.told: dict[str, set[Location]] = {"rank": set(), "world_size": set(), "gpu": set()}
        self.spawned: list[FlowEdge] = []  # what gives started processes their number
        self.computed_ranks: list[Dependency] = []  # what the group's rank is made of

    def collect(self) -> None:
        """Note every assignment, argument and result."""
        for node in self.structure.all(*self._HANDLERS):
            self._HANDLERS[type(node)](self, node)

    def edge(
        self,
        targets: Iterable[Location],
        source: cst.BaseExpression,
        node: cst.CSTNode,
        adds: bool = False,
        key: str | None = None,
    ) -> None:
        """One value that goes somewhere."""
        made = self.dependencies.of(source, self.module)
        self.edges.append(FlowEdge(list(targets), made, node, adds, value=source, key=key))

    def _assign(
        self, target: cst.BaseExpression, source: cst.BaseExpression, node: cst.CSTNode
    ) -> None:
        pairs = side_by_side(target, source)
        for one, other in pairs or ():
            self._assign(one, other, node)
        if pairs is not None:
            return
        ones = elements(target)
        if ones is not None and len(ones) == 2 and self._is_counted(source):
            target, ones = ones[1], None  # the number is the same on every rank
        if ones is not None and isinstance(source, cst.Call):
            self._unpack(ones, source, node)
            return
        if ones is not None and isinstance(source, cst.Subscript):
            apart = self.dependencies.apart(source, self.module)
            if apart is not None and len(apart) == len(ones):
                self._unpack_slice(ones, apart, node, source)
                return
        locations = set(self.locations.of_target(target, self.module))
        entries = _entries(source) if isinstance(target, (cst.Name, cst.Attribute)) else None
        parts = _put_together(source) if entries is None else []
        for one in parts:
            self.edge(locations, one, node, key=constant_key(target))
            self.edges[-1].part = True
        if entries is None and not parts:
            goes_on = isinstance(source, cst.BinaryOperation) and not locations.isdisjoint(
                self.dependencies.locations_of(source, self.module)
            )
            self.edge(locations, source, node, adds=goes_on, key=constant_key(target))
        for key, one in entries or ():
            self.edge(locations, one, node, key=key)

    def _unpack(
        self, targets: list[cst.BaseExpression], source: cst.Call, node: cst.CSTNode
    ) -> None:
        """``a, b = call()``: each element on its own where the function returns displays."""
        made = self.dependencies.of(source, self.module)
        for index, target in enumerate(targets):
            own = [self._element(one, index, len(targets)) for one in made]
            locations = self.locations.of_target(target, self.module)
            self.edges.append(
                FlowEdge(locations, own, node, value=source, key=constant_key(target))
            )

    def _unpack_slice(
        self,
        targets: list[cst.BaseExpression],
        made: list[list[Dependency]],
        node: cst.CSTNode,
        source: cst.Subscript,
    ) -> None:
        """``a, b = made[1:3]`` of what a function returns as a display."""
        for target, own in zip(targets, made, strict=True):
            locations = self.locations.of_target(target, self.module)
            self.edges.append(
                FlowEdge(locations, own, node, value=source, key=constant_key(target))
            )

    def _element(self, one: Dependency, index: int, count: int) -> Dependency:
        if one.location is None or one.location[0] != "result":
            return one
        if self.widths.get(one.location[1]) != count:
            return one
        return replace(one, location=("result", one.location[1], index))

    def _on_assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._assign(target.target, node.value, node)

    def _on_annotated(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value, node)

    def _on_walrus(self, node: cst.NamedExpr) -> None:
        self._assign(node.target, node.value, node)

    def _on_augmented(self, node: cst.AugAssign) -> None:
        locations = self.locations.of_target(node.target, self.module)
        self.edge(locations, node.value, node, adds=True, key=constant_key(node.target))

    def _on_loop(self, node: cst.For | cst.CompFor) -> None:
        target: cst.BaseExpression = node.target
        if self._counts(node.iter) and isinstance(target, UNPACKED) and len(target.elements) == 2:
            target = target.elements[1].value  # the number or key is the same on every rank
            if self._counts_entries(node.iter) and len(elements(target) or ()) == 2:
                target = cst.ensure_type(target, cst.Tuple).elements[1].value
        elif isinstance(target, cst.Name) and self._may_count(node.iter):
            self._pairs.update(self.locations.of_target(target, self.module))
        ones, others = elements(target), self._zipped(node.iter)
        if ones is not None and len(ones) == len(others):
            for one, other in zip(ones, others, strict=True):
                self.edge(self.locations.of_target(one, self.module), other, node)
            return
        locations = self.locations.of_target(target, self.module)
        self.edge(locations, node.iter, node, key=constant_key(target))

    def _is_counted(self, node: cst.BaseExpression) -> bool:
        """Whether a name may be the pair that a loop over ``enumerate(...)`` gives."""
        if not isinstance(node, cst.Name):
            return False
        return not self._pairs.isdisjoint(self.locations.of_name(node, self.module))

    def _may_count(self, node: cst.BaseExpression) -> bool:
        """Whether one of the things that a loop may go through is ``enumerate(...)``."""
        held = self.facts.values.get(node, value()).of(Instance)
        return self._counts(node) or any(
            isinstance(one.site, cst.Call) and self._counts(one.site) for one in held
        )

    def _counts(self, node: cst.BaseExpression, depth: int = 4) -> bool:
        """``enumerate(...)`` and ``x.items()``, also by a name and in a progress bar."""
        if not isinstance(node, cst.Call):
            held = self.facts.values.get(node, value()).atoms
            made = [a.site for a in held if isinstance(a, Instance)]
            return (
                depth > 0
                and isinstance(node, cst.Name)
                and bool(made)
                and len(made) == len(held)
                and all(isinstance(one, cst.Call) and self._counts(one, depth - 1) for one in made)
            )
        if sources.name_of(node.func) == "enumerate":
            return True
        if node.args and depth > 0 and self._may_be_bar(node):
            return self._counts(node.args[0].value, depth - 1)
        return isinstance(node.func, cst.Attribute) and node.func.attr.value == "items"

    def _may_be_bar(self, node: cst.Call) -> bool:
        """Whether a call shows how far a count is, as what another package makes of one does."""
        first = node.args[0].value
        if isinstance(first, cst.Call) and sources.name_of(first.func) == "enumerate":
            return True
        names = set(library_names(self.facts.values.get(node.func)))
        if isinstance(first, cst.Name) and names:
            return not any(one.startswith(_OF_PYTHON) for one in names)
        return bool(names) and names <= {*BARS}

    def _counts_entries(self, node: cst.BaseExpression) -> bool:
        """``enumerate(x.items())``, whose entries come with their number."""
        if not isinstance(node, cst.Call) or sources.name_of(node.func) != "enumerate":
            return False
        counted = node.args[0].value if node.args else None
        return isinstance(counted, cst.Call) and self._counts(counted)

    def _zipped(self, node: cst.BaseExpression, depth: int = 4) -> list[cst.BaseExpression]:
        """What ``zip(...)`` goes through side by side, also by a name, counted and in a bar."""
        if depth == 0:
            return []
        if isinstance(node, cst.Name):
            held = self.facts.values.get(node, value()).atoms
            made = [a.site for a in held if isinstance(a, Instance)]
            known = len(held) == 1 and bool(made) and made[0] in self.structure.order
            return self._zipped(made[0], depth - 1) if known else []  # type: ignore[arg-type]
        if not isinstance(node, cst.Call) or any(one.star for one in node.args):
            return []
        if sources.name_of(node.func) == "zip":
            return [one.value for one in node.args]
        names = set(library_names(self.facts.values.get(node.func)))
        passes = bool(names) and names <= {*BARS, "builtins.enumerate"}
        return self._zipped(node.args[0].value, depth - 1) if passes and node.args else []

    def _on_context(self, node: cst.WithItem) -> None:
        if node.asname is not None:
            self._assign(node.asname.name, node.item, node)

    def _on_return(self, node: cst.Return) -> None:
        function = self.structure.function(node)
        if node.value is not None and function is not None:
            entries = _entries(node.value)
            for key, one in entries or ((None, node.value),):
                self.edge([("result", function)], one, node, key=key)
            if function in self.widths:
                for index, one in enumerate(elements(node.value) or ()):
                    self.edge([("result", function, index)], one, node)

    def _on_yield(self, node: cst.Yield) -> None:
        function = self.structure.function(node)
        held = node.value.item if isinstance(node.value, cst.From) else node.value
        if held is not None and function is not None:
            self.edge([("result", function)], held, node)

    def _on_lambda(self, node: cst.Lambda) -> None:
        self.edge([("result", node)], node.body, node)

    def _on_call(self, node: cst.Call) -> None:
        held = self.facts.values.get(node.func, value())
        for function in called(self.facts, node):
            self._pass(node, function, skip=already_given(held, function))
        self._keep_arguments(node)
        for function in (*initialisers(self.facts, node), *wrapped_forwards(self.facts, node)):
            self._pass(node, function, skip=1)
        for made, name, given in fields(self.facts, node):
            self.edge([("attribute", made.node, name)], given, node)
        self._library(node)
        self._option(node)
        self._keep(node)
        self._copy(node)

    def _keep_arguments(self, node: cst.Call) -> None:
        """``functools.partial(function, x)``: the function gets ``x`` wherever the result is
        called.
        """
        if not node.args or "functools.partial" not in library_names(
            self.facts.values.get(node.func)
        ):
            return
        held = self.facts.values.get(node.args[0].value, value())
        given = node.with_changes(args=node.args[1:])
        for function in functions_in(held):
            self._pass(node, function, already_given(held, function), given)

    def _pass(
        self, node: cst.Call, function: Function, skip: int, given: cst.Call | None = None
    ) -> None:
        call = given or node
        apart = collected(function.node, call, skip)
        for argument, name in passed(function, skip, call):
            made = self.dependencies.of(argument.value, self.module)
            targets: list[Location] = [("name", function.node, name)]
            targets += [apart[argument]] if argument in apart else []
            self.edges.append(FlowEdge(targets, made, node, passes=True, value=argument.value))
        for argument, item, target in passed_on(function.node, call, skip):
            made = item_of(self.dependencies, self.module, argument, item)
            if made:
                self.edges.append(FlowEdge([target], made, node, passes=True, value=argument.value))

    def _library(self, node: cst.Call) -> None:
        """What passes through a collective is the same on all ranks; spawned code gets a rank."""
        names = set(library_names(self.facts.values.get(node.func)))
        if names & REDUCING or self._reduces_unseen(node):
            for argument in node.args:
                found = self._reduced(argument.value) | self._named(argument.value)
                key = entry_in(argument.value)
                if key is not None:
                    self.entries |= {(location, key) for location in found}
                    continue
                for location in found:
                    self.sanitized.setdefault(location, []).append(node)
        if names & IN_PLACE and node.args and not self._is_copied(node.args[0].value):
            changed = node.args[0].value
            if entry_in(changed) is None:
                self.in_place |= self.dependencies.locations_of(changed, self.module)
        if INIT_GROUP in names:
            for one in node.args:
                told = self.told.get(one.keyword.value) if one.keyword is not None else None
                if told is not None:
                    made = self.dependencies.of(one.value, self.module)
                    told |= {d.location for d in made if d.location and d.node is one.value}
                    self.computed_ranks += made if told is self.told["rank"] else []
        if DDP in names:
            self._tell_gpu(node)
        ranks = dict.fromkeys(spawned_ranks(self.facts, self.structure, node, names))
        for parameter in ranks:
            source = [Dependency(label=sources.RANK), Dependency(label=sources.SPAWNED)]
            self.spawned.append(FlowEdge([parameter], source, node))
            self.edges.append(self.spawned[-1])
        for parameter, source_of in spawned_arguments(self.facts, node, names):
            if parameter not in ranks:
                self.edge([parameter], source_of, node)

    def _is_copied(self, given: cst.BaseExpression) -> bool:
        """Whether a name has got memory of its own: ``x = x.clone()``, before ``all_reduce(x)``."""
        if not isinstance(given, cst.Name):
            return False
        around = self.structure.function(given)
        made: dict[cst.CSTNode, cst.BaseExpression] = {
            one: one.value
            for one in self.structure.all(cst.Assign)
            if self.structure.function(one) is around
            and any(dotted(target.target) == given.value for target in one.targets)
        }
        last = reaching_definition(self.structure, given, [*made])
        return last is not None and is_copy(made[last])

    def _tell_gpu(self, node: cst.Call) -> None:
        """``device_ids=[x]`` of a wrapper: each rank has one of its own."""
        given = next((a.value for a in node.args if a.keyword and a.keyword.value == _GPUS), None)
        ones = elements(given) if given is not None else None
        for one in ones if ones is not None and len(ones) == 1 else ():
            held = self.facts.values.get(one, value()).atoms
            if not any(isinstance(atom, Device) for atom in held):
                made = self.dependencies.of(one, self.module)
                self.told["gpu"] |= {d.location for d in made if d.location and d.node is one}

    def _reduced(self, node: cst.BaseExpression) -> set[Location]:
        """What a collective is given: of ``self.totals[key]`` neither the object nor the key."""
        return {
            one.location
            for one in self.dependencies.of(node, self.module)
            if one.location is not None and not self._only_leads_there(one.node)
        }

    def _only_leads_there(self, node: cst.CSTNode | None) -> bool:
        above = self.structure.parents.get(node) if node is not None else None
        if not (isinstance(above, cst.Attribute) and above.value is node):
            return isinstance(above, cst.Index)
        held = self.facts.values.get(node, value()) if isinstance(node, cst.Name) else value()
        return any(isinstance(a.type, Class) for a in held.of(Instance))

    def _named(self, node: cst.BaseExpression) -> set[Location]:
        """All slots of a name: what it is in a block, it is after the block, too."""
        if not isinstance(node, cst.Name):
            return set()
        return set(self.dependencies.locations.of_name(node, self.module))

    def _reduces_unseen(self, node: cst.Call) -> bool:
        """Whether code that was never run calls a collective, by its name."""
        if node.func in self.facts.values:
            return False
        return sources.name_of(node.func).rsplit(".", 1)[-1] in REDUCING_NAMES

    def _keep(self, node: cst.Call) -> None:
        """``list.append(x)``: the list holds ``x``."""
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPERS:
            if any(True for _ in called(self.facts, node)):
                return
            for argument in node.args:
                targets = self.locations.of_target(node.func.value, self.module)
                key = constant_key(node.func.value)
                self.edge(targets, argument.value, node, adds=True, key=key)

    def _option(self, node: cst.Call) -> None:
        """``parser.add_argument("--name", default=x)``: ``args.name`` may be ``x``."""
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "add_argument":
            return
        told = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
        parsers = self.facts.values.get(node.func.value, value()).atoms
        names = [self.facts.values.get(a.value, value()) for a in node.args if a.keyword is None]
        dest = self.facts.values.get(told["dest"]) if "dest" in told else None
        name = command_line_options.attribute_of(names, dest)
        for parser in parsers if "default" in told else ():
            if isinstance(parser, Instance) and parser.type in command_line_options.PARSERS:
                self.edge([("attribute", parser.site, name)], told["default"], node)
                self.edges[-1].offers = True

    def _copy(self, node: cst.Call) -> None:
        """``x.copy_(y)``: what ``x`` stands for is changed where it is."""
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "copy_" and node.args:
            into, source = (
                self.dependencies.locations_of(one, self.module)
                for one in (node.func.value, node.args[0].value)
            )
            self.copied.append((into, source))

    _HANDLERS: ClassVar[dict[type, Callable[[Collector, Any], None]]] = {
        cst.Assign: _on_assign,
        cst.AnnAssign: _on_annotated,
        cst.NamedExpr: _on_walrus,
        cst.AugAssign: _on_augmented,
        cst.For: _on_loop,
        cst.CompFor: _on_loop,
        cst.WithItem: _on_context,
        cst.Return: _on_return,
        cst.Yield: _on_yield,
        cst.Lambda: _on_lambda,
        cst.Call: _on_call,
    }


def _put_together(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The values of ``{**train, **test, "epoch": epoch}``; none where no part is a dictionary."""
    ones = node.elements if isinstance(node, cst.Dict) else ()
    starred = any(isinstance(one, cst.StarredDictElement) for one in ones)
    return [one.value for one in ones] if starred else []


def _entries(node: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
    """The entries of ``{"key": value, ...}``; None for anything else."""
    if not isinstance(node, cst.Dict) or not node.elements:
        return None
    found = []
    for element in node.elements:
        key = element.key if isinstance(element, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString):
            return None
        found.append((str(key.evaluated_value), element.value))
    return found
