"""Which names, attributes and results carry which labels, whatever the order of statements.

Labels (see :mod:`origins`) flow along assignments, arguments and returns of the project's own
functions. A name that passes through a collective anywhere counts as clean: this errs on the side
of silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import libcst as cst

from ddpify.understanding import origins
from ddpify.understanding.distributed import METRICS, REDUCING
from ddpify.understanding.facts import Facts
from ddpify.understanding.origins import CLEAN, DATA, GIVEN, LENGTH, LOCAL, TAKEN, TOTAL
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, children, walk
from ddpify.understanding.values import (
    Bound,
    Class,
    Function,
    Instance,
    Lib,
    Namespace,
    Value,
    value,
)

Slot = tuple[object, ...]
FunctionNode = cst.FunctionDef | cst.Lambda
_TOTALS = {LOCAL: TOTAL, GIVEN[LOCAL]: GIVEN[TOTAL]}
_NOT_SYNCHRONISING = frozenset("forward __init__ __call__ train fit run main step".split())
_REDUCING_NAMES = {name.rsplit(".", 1)[-1] for name in REDUCING}
_KEEPERS = frozenset("append extend add update insert put appendleft".split())


@dataclass(frozen=True, slots=True)
class Dependency:
    """Something that an expression's value is made from: a slot, or a label of its own."""

    slot: Slot | None = None
    label: str = ""
    pure: bool = True
    node: cst.CSTNode | None = None
    given: tuple[Dependency, ...] | None = None  # a call's arguments: the slot is its result


@dataclass(slots=True)
class Move:
    """A value that goes from an expression into slots; ``adds`` for ``+=`` and the like."""

    targets: list[Slot]
    source: list[Dependency]
    node: cst.CSTNode
    adds: bool = False
    passes: bool = False  # an argument that goes into a parameter
    value: cst.BaseExpression | None = None  # the expression that is assigned or passed


@dataclass(slots=True)
class Scopes:
    """Which function owns each name."""

    local: dict[cst.CSTNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    shared: dict[cst.CSTNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    looped: dict[cst.CSTNode, set[str]] = field(default_factory=dict)  # fresh in each round


class Flow:
    """The labels of a project's expressions."""

    def __init__(self, facts: Facts, structures: dict[ModuleFile, Structure]) -> None:
        self.facts = facts
        self.structures = structures
        self.labels: dict[Slot, set[str]] = defaultdict(set)
        self.moves: list[Move] = []
        self.cleaned: set[Slot] = set()
        self._known: dict[cst.CSTNode, list[Dependency]] = {}
        self._scopes = Scopes()
        self.widths = _widths(structures.values())
        for module, structure in structures.items():
            self._name_scopes(structure)
            _Collector(self, module, structure).collect()
        self._clean_synchronised()
        self.solve()

    # ------------------------------------------------------------------ questions
    def of(self, node: cst.BaseExpression, module: ModuleFile) -> set[str]:
        """The labels of an expression."""
        found: set[str] = set()
        for one in self.dependencies(node, module):
            found |= self._carried(one)
        found = {TAKEN.get(label, label) for label in found}
        if CLEAN in found or any(d.slot in self.cleaned for d in self.dependencies(node, module)):
            found -= {LOCAL, TOTAL}
        return found

    def slots(self, node: cst.BaseExpression, module: ModuleFile) -> set[Slot]:
        """The slots that an expression reads."""
        return {d.slot for d in self.dependencies(node, module) if d.slot is not None}

    def origins(self, node: cst.BaseExpression, module: ModuleFile) -> set[str]:
        """All labels of anything that went into an expression's value, however indirectly."""
        found: set[str] = set()
        for one in self.ancestry(node, module):
            found |= {one.label} if one.slot is None else self.labels.get(one.slot, set())
        return found

    def ancestry(self, node: cst.BaseExpression, module: ModuleFile) -> Iterator[Dependency]:
        """Everything that went into an expression's value, however indirectly."""
        made = self._sources
        todo, seen = list(self.dependencies(node, module)), set[Slot]()
        while todo:
            one = todo.pop()
            yield one
            todo += one.given or ()
            if one.slot is not None and one.slot not in seen:
                seen.add(one.slot)
                todo += made.get(one.slot, ())

    def moves_at(self, node: cst.CSTNode) -> list[Move]:
        """The moves that a node makes."""
        return self._moves_by_node.get(node, [])

    def moves_to(self, slots: set[Slot]) -> list[Move]:
        """The moves that set any of these slots."""
        found = {id(move): move for slot in slots for move in self._moves_by_slot.get(slot, ())}
        return list(found.values())

    @cached_property
    def _moves_by_slot(self) -> dict[Slot, list[Move]]:
        found: dict[Slot, list[Move]] = defaultdict(list)
        for move in self.moves:
            for slot in move.targets:
                found[slot].append(move)
        return dict(found)

    @cached_property
    def _moves_by_node(self) -> dict[cst.CSTNode, list[Move]]:
        found: dict[cst.CSTNode, list[Move]] = defaultdict(list)
        for move in self.moves:
            found[move.node].append(move)
        return dict(found)

    def derived(self, start: Iterable[Slot]) -> set[Slot]:
        """All slots whose values are made from these."""
        found = set(start)
        todo = list(found)
        while todo:
            for move in self._users.get(todo.pop(), ()):
                fresh = [target for target in move.targets if target not in found]
                found.update(fresh)
                todo += fresh
        return found

    @cached_property
    def _sources(self) -> dict[Slot, list[Dependency]]:
        """What each slot is made from."""
        made: dict[Slot, list[Dependency]] = defaultdict(list)
        for move in self.moves:
            for slot in move.targets:
                made[slot] += move.source
        return dict(made)

    @cached_property
    def _users(self) -> dict[Slot, list[Move]]:
        """Where each slot's value goes."""
        users: dict[Slot, list[Move]] = defaultdict(list)
        for move in self.moves:
            for one in move.source:
                for inner in (one, *(one.given or ())):
                    if inner.slot is not None:
                        users[inner.slot].append(move)
        return dict(users)

    # ------------------------------------------------------------------ solving
    def solve(self, extra: dict[cst.CSTNode, set[str]] | None = None) -> None:
        """Propagate labels; ``extra`` labels what goes through the moves of these nodes."""
        extra = extra or {}
        self._spread_cleanliness()
        local = {LOCAL, TOTAL, *TAKEN}
        changed = True
        while changed:
            changed = False
            for move in self.moves:
                labels = self._incoming(move) | extra.get(move.node, set())
                for slot in move.targets:
                    new = labels - local if slot in self.cleaned else labels
                    if move.passes:
                        new = {GIVEN.get(label, label) for label in new}
                    elif slot[0] == "attribute":  # outlives the call
                        new = {TAKEN.get(label, label) for label in new}
                    if not new <= self.labels[slot]:
                        self.labels[slot] |= new
                        changed = True

    def _incoming(self, move: Move) -> set[str]:
        found: set[str] = set()
        for one in move.source:
            found |= self._carried(one)
        if move.adds:
            found |= {total for local, total in _TOTALS.items() if local in found}
        return found - {CLEAN}

    def _carried(self, one: Dependency) -> set[str]:
        """The labels that one dependency brings."""
        if one.slot is None:
            return {one.label}
        labels = self.labels.get(one.slot, set())
        if one.given is not None:
            found = labels - set(TAKEN)
            if labels & set(TAKEN):  # the result is made of what is passed
                for argument in one.given:
                    found |= self._carried(argument) & DATA
            labels = found
        return labels if one.pure else labels & DATA

    def _spread_cleanliness(self) -> None:
        changed = True
        while changed:
            changed = False
            for move in self.moves:
                if any(d.label == CLEAN or d.slot in self.cleaned for d in move.source):
                    fresh = set(move.targets) - self.cleaned
                    self.cleaned |= fresh
                    changed = changed or bool(fresh)

    def _clean_synchronised(self) -> None:
        """Objects with a method that reduces them, when the method is called anywhere.

        Such methods (``meters.synchronize()``) are matched by name where the object is unknown:
        it only silences.
        """
        methods = self._reducing_methods()
        classes: set[object] = set()
        for module, structure in self.structures.items():
            for call in structure.all(cst.Call):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value in methods:
                    self.cleaned |= self.slots(call.func.value, module)
                    classes |= methods[call.func.attr.value]
        held = {slot for move in self.moves for slot in move.targets}
        self.cleaned |= {s for s in held if s[0] == "attribute" and s[1] in classes}

    def _reducing_methods(self) -> dict[str, set[object]]:
        """Methods that run a collective, or call one that does, with their classes."""
        found: dict[str, set[object]] = defaultdict(set)
        for _ in range(2):
            known = set(found)
            for structure in self.structures.values():
                for function in structure.all(cst.FunctionDef):
                    owner = structure.class_of(function)
                    if owner is not None and self._reduces(function, known):
                        found[function.name.value].add(owner)
        return {name: owners for name, owners in found.items() if name not in _NOT_SYNCHRONISING}

    def _reduces(self, function: cst.FunctionDef, known: set[str]) -> bool:
        """Whether a function's body calls a collective, by name: it may not have been run."""
        for node in walk(function.body):
            if isinstance(node, cst.Call):
                short = origins.name_of(node.func).rsplit(".", 1)[-1]
                if short in _REDUCING_NAMES or short in known:
                    return True
        return False

    # ------------------------------------------------------------------ names
    def _name_scopes(self, structure: Structure) -> None:
        for function in structure.all(cst.FunctionDef, cst.Lambda):
            self._scopes.local[function] |= {p.name.value for p in parameters(function)}
        for statement in structure.all(cst.Global, cst.Nonlocal):
            owner = structure.function(statement)
            if owner is not None:
                self._scopes.shared[owner] |= {item.name.value for item in statement.names}
        for loop in structure.all(cst.For, cst.While):
            self._scopes.looped[loop] = fresh_names(loop)
        for node, target in bindings(structure):
            owner = structure.function(node)
            if owner is not None:
                self._scopes.local[owner] |= set(target_names(target))

    def name_slots(self, node: cst.Name, module: ModuleFile) -> list[Slot]:
        """The slots that a name sets: of the loops in which it is fresh, then of its scope.

        Two loops that use one name for different things keep them apart; after the loops the name
        may be either. Reading takes the first slot.
        """
        structure = self.structures[module]
        found: list[Slot] = []
        below: cst.CSTNode = node
        for above in structure.up(node):
            if isinstance(above, (cst.For, cst.While)) and node.value in self._scopes.looped[above]:
                if below is above.body or (isinstance(above, cst.For) and below is above.target):
                    found.append(("name", above, node.value))
            elif isinstance(above, (cst.FunctionDef, cst.Lambda)):
                if node.value in self._scopes.shared.get(above, ()):
                    break
                if node.value in self._scopes.local.get(above, ()):
                    return [*found, ("name", above, node.value)]
            below = above
        return [*found, ("name", structure.tree, node.value)]

    def target_slots(self, target: cst.BaseExpression, module: ModuleFile) -> list[Slot]:
        """The slots that an assignment to this target sets."""
        if isinstance(target, cst.Name):
            return self.name_slots(target, module)
        if isinstance(target, cst.Attribute):
            return self._attribute_slots(target, module)
        if isinstance(target, cst.Subscript):
            return self.target_slots(target.value, module)
        if isinstance(target, (cst.Tuple, cst.List)):
            return [s for e in target.elements for s in self.target_slots(e.value, module)]
        return []

    def _attribute_slots(self, node: cst.Attribute, module: ModuleFile) -> list[Slot]:
        owner = self.facts.values.get(node.value)
        slots: list[Slot] = []
        for atom in owner.atoms if owner is not None else ():
            if isinstance(atom, Instance):
                kept: object = atom.type.node if isinstance(atom.type, Class) else atom.site
                slots.append(("attribute", kept, node.attr.value))
            elif isinstance(atom, Namespace) and atom.module in self.structures:
                slots.append(("name", self.structures[atom.module].tree, node.attr.value))
            elif isinstance(atom, Class):
                slots.append(("attribute", atom.node, node.attr.value))
        return slots or [("text", module.path, origins.name_of(node))]

    # ------------------------------------------------------------------ expressions
    def dependencies(self, node: cst.BaseExpression, module: ModuleFile) -> list[Dependency]:
        """What an expression's value is made from."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = list(self._depend(node, module, True))
        return known

    def _depend(self, node: cst.CSTNode, module: ModuleFile, pure: bool) -> Iterator[Dependency]:
        if isinstance(node, cst.Name):
            yield from self._name(node, module, pure)
        elif isinstance(node, cst.Attribute):
            yield from self._attribute(node, module, pure)
        elif isinstance(node, cst.Call):
            yield from self._call(node, module, pure)
        elif (
            isinstance(node, cst.Comparison) and origins.asks_whether_distributed(node)
        ) or isinstance(node, (cst.Lambda, cst.FunctionDef)):
            return
        elif isinstance(node, cst.FormattedString):
            for child in children(node):
                yield from self._depend(child, module, False)
        elif isinstance(node, cst.Subscript):
            yield from self._subscript(node, module, pure)
        else:
            for child in children(node):
                yield from self._depend(child, module, pure)

    def _name(self, node: cst.Name, module: ModuleFile, pure: bool) -> Iterator[Dependency]:
        held = self.facts.values.get(node)
        if held is not None and held.atoms and all(isinstance(a, Lib) for a in held.atoms):
            return
        yield Dependency(self.name_slots(node, module)[0], pure=pure, node=node)

    def _attribute(
        self, node: cst.Attribute, module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        held = self.facts.values.get(node)
        if held is not None and held.atoms and all(isinstance(a, Lib) for a in held.atoms):
            return
        for slot in self._attribute_slots(node, module):
            yield Dependency(slot, pure=pure, node=node)
        if node.attr.value == "local_rank" and self._local_rank_is_an_option:
            yield Dependency(label=origins.LOCAL_RANK, node=node)
        if node.attr.value not in origins.SHAPE_LIKE:
            yield from self._depend(node.value, module, False)

    @cached_property
    def _local_rank_is_an_option(self) -> bool:
        """Whether the scripts take ``--local_rank`` from torch.distributed.launch."""
        for structure in self.structures.values():
            for call in structure.all(cst.Call):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                    given = [self.facts.values.get(a.value, value()) for a in call.args]
                    if origins.declares_local_rank(given):
                        return True
        return False

    def _subscript(
        self, node: cst.Subscript, module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        if "os.environ" in origins.library_names(self.facts.values.get(node.value)):
            for element in node.slice:
                if isinstance(element.slice, cst.Index):
                    key = self.facts.values.get(element.slice.value, value())
                    for label in origins.environment_labels(key):
                        yield Dependency(label=label)
            return
        for child in children(node):
            yield from self._depend(child, module, pure)

    def _call(self, node: cst.Call, module: ModuleFile, pure: bool) -> Iterator[Dependency]:
        functions = list(self.called(node))
        if functions:
            given = tuple(d for a in node.args for d in self._depend(a.value, module, False))
            for function in functions:
                yield Dependency(("result", function.node), pure=pure, node=node, given=given)
            return
        names = list(origins.library_names(self.facts.values.get(node.func)))
        arguments = [self.facts.values.get(a.value, value()) for a in node.args]
        for name in names:
            for label in origins.call_labels(name, arguments):
                yield Dependency(label=label, node=node)
        yield from self._length(node, names)
        if self._is_metric(node):
            yield Dependency(label=CLEAN, node=node)
        if any(origins.is_silent(name) for name in names):
            return
        yield from self._through(node, names, module, pure)

    def _through(
        self, node: cst.Call, names: list[str], module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        """What passes from arguments and receiver to the result of a library call."""
        method = isinstance(node.func, cst.Attribute) and not names
        if method:
            assert isinstance(node.func, cst.Attribute)
            if node.func.attr.value in origins.SHAPE_LIKE:
                return
            pure = False
            yield from self._depend(node.func.value, module, pure)
        else:
            pure = pure and bool(names) and all(origins.is_pure(name) for name in names)
            if self._makes_project_object(node):
                pure = False
        for argument in node.args:
            yield from self._depend(argument.value, module, pure)

    def _length(self, node: cst.Call, names: list[str]) -> Iterator[Dependency]:
        if names == ["builtins.len"] and node.args:
            yield Dependency(label=LENGTH, node=node.args[0].value)

    def _is_metric(self, node: cst.Call) -> bool:
        """Whether a method of a torchmetrics object, which reduces itself, is called."""
        if not isinstance(node.func, cst.Attribute):
            return False
        held = self.facts.values.get(node.func.value)
        return any(
            isinstance(a, Instance) and isinstance(a.type, str) and a.type.startswith(METRICS)
            for a in (held.atoms if held is not None else ())
        )

    def _makes_project_object(self, node: cst.Call) -> bool:
        held = self.facts.values.get(node.func)
        return held is not None and any(isinstance(a, Class) for a in held.atoms)

    # ------------------------------------------------------------------ calls
    def called(self, node: cst.Call) -> Iterator[Function]:
        """The project's functions that a call runs and whose result it gives."""
        held = self.facts.values.get(node.func)
        for atom in held.atoms if held is not None else ():
            if isinstance(atom, Function):
                yield atom
            elif isinstance(atom, Bound):
                yield atom.function
            elif isinstance(atom, Instance) and isinstance(atom.type, Class):
                for name in ("forward", "__call__"):
                    found: Value | None = atom.type.find(name)
                    yield from found.of(Function) if found is not None else ()  # type: ignore[misc]

    def initialisers(self, node: cst.Call) -> Iterator[Function]:
        """The ``__init__`` functions that a call runs."""
        held = self.facts.values.get(node.func)
        for atom in held.atoms if held is not None else ():
            if isinstance(atom, Class):
                found = atom.find("__init__")
                yield from found.of(Function) if found is not None else ()  # type: ignore[misc]


class _Collector:
    """Collects the moves of one file."""

    def __init__(self, flow: Flow, module: ModuleFile, structure: Structure) -> None:
        self.flow, self.module, self.structure = flow, module, structure

    def collect(self) -> None:
        """Note every assignment, argument and result."""
        for node in self.structure.order:
            handler = getattr(self, f"_on_{type(node).__name__}", None)
            if handler is not None:
                handler(node)

    def move(
        self,
        targets: Iterable[Slot],
        source: cst.BaseExpression,
        node: cst.CSTNode,
        adds: bool = False,
    ) -> None:
        """One value that goes somewhere."""
        made = self.flow.dependencies(source, self.module)
        self.flow.moves.append(Move(list(targets), made, node, adds, value=source))

    def _assign(
        self, target: cst.BaseExpression, source: cst.BaseExpression, node: cst.CSTNode
    ) -> None:
        ones, others = _elements(target), _elements(source)
        if ones is not None and others is not None and len(ones) == len(others):
            for one, other in zip(ones, others, strict=True):
                self._assign(one, other, node)
            return
        if ones is not None and isinstance(source, cst.Call):
            self._unpack(ones, source, node)
            return
        self.move(self.flow.target_slots(target, self.module), source, node)

    def _unpack(
        self, targets: list[cst.BaseExpression], source: cst.Call, node: cst.CSTNode
    ) -> None:
        """``a, b = call()``: each element on its own where the function returns displays."""
        made = self.flow.dependencies(source, self.module)
        for index, target in enumerate(targets):
            own = [self._element(one, index, len(targets)) for one in made]
            slots = self.flow.target_slots(target, self.module)
            self.flow.moves.append(Move(slots, own, node, value=source))

    def _element(self, one: Dependency, index: int, count: int) -> Dependency:
        if one.slot is None or one.slot[0] != "result":
            return one
        if self.flow.widths.get(one.slot[1]) != count:
            return one
        return replace(one, slot=("result", one.slot[1], index))

    def _on_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._assign(target.target, node.value, node)

    def _on_AnnAssign(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value, node)

    def _on_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._assign(node.target, node.value, node)

    def _on_AugAssign(self, node: cst.AugAssign) -> None:
        self.move(self.flow.target_slots(node.target, self.module), node.value, node, adds=True)

    def _on_For(self, node: cst.For | cst.CompFor) -> None:
        target: cst.BaseExpression = node.target
        if _counts(node.iter) and isinstance(target, cst.Tuple) and len(target.elements) == 2:
            target = target.elements[1].value  # the number is the same on every rank
        self.move(self.flow.target_slots(target, self.module), node.iter, node)

    _on_CompFor = _on_For

    def _on_WithItem(self, node: cst.WithItem) -> None:
        if node.asname is not None:
            self._assign(node.asname.name, node.item, node)

    def _on_Return(self, node: cst.Return) -> None:
        function = self.structure.function(node)
        if node.value is not None and function is not None:
            self.move([("result", function)], node.value, node)
            if function in self.flow.widths:
                for index, one in enumerate(_elements(node.value) or ()):
                    self.move([("result", function, index)], one, node)

    def _on_Yield(self, node: cst.Yield) -> None:
        function = self.structure.function(node)
        held = node.value.item if isinstance(node.value, cst.From) else node.value
        if held is not None and function is not None:
            self.move([("result", function)], held, node)

    def _on_Lambda(self, node: cst.Lambda) -> None:
        self.move([("result", node)], node.body, node)

    def _on_Call(self, node: cst.Call) -> None:
        for function in self.flow.called(node):
            held = self.flow.facts.values.get(node.func, value())
            bound = any(isinstance(a, (Bound, Instance)) for a in held.atoms)
            self._pass(node, function, skip=1 if bound else 0)
        for function in self.flow.initialisers(node):
            self._pass(node, function, skip=1)
        self._library(node)
        self._keep(node)

    def _pass(self, node: cst.Call, function: Function, skip: int) -> None:
        names = parameters(function.node)
        position = skip
        for argument in node.args:
            if argument.star:
                position = len(names)
            elif argument.keyword is not None:
                self._argument(function, argument.keyword.value, argument.value, node)
            elif position < len(names):
                self._argument(function, names[position].name.value, argument.value, node)
                position += 1

    def _argument(
        self, function: Function, name: str, source: cst.BaseExpression, node: cst.CSTNode
    ) -> None:
        made = self.flow.dependencies(source, self.module)
        slots: list[Slot] = [("name", function.node, name)]
        self.flow.moves.append(Move(slots, made, node, passes=True, value=source))

    def _library(self, node: cst.Call) -> None:
        """What passes through a collective is the same on all ranks; spawned code gets a rank."""
        names = set(origins.library_names(self.flow.facts.values.get(node.func)))
        if names & REDUCING or self._reduces_unseen(node):
            for argument in node.args:
                self.flow.cleaned |= self.flow.slots(argument.value, self.module)
        if any(name.startswith("torch.multiprocessing.s") for name in names) and node.args:
            held = self.flow.facts.values.get(node.args[0].value, value())
            for function in held.of(Function):
                first = parameters(function.node)[:1]  # type: ignore[union-attr, arg-type]
                source = [Dependency(label=origins.RANK), Dependency(label=origins.SPAWNED)]
                for one in first:
                    slot: Slot = ("name", function.node, one.name.value)  # type: ignore[union-attr]
                    self.flow.moves.append(Move([slot], source, node))

    def _reduces_unseen(self, node: cst.Call) -> bool:
        """Whether code that was never run calls a collective, by its name."""
        if node.func in self.flow.facts.values:
            return False
        return origins.name_of(node.func).rsplit(".", 1)[-1] in _REDUCING_NAMES

    def _keep(self, node: cst.Call) -> None:
        """``list.append(x)``: the list holds ``x``."""
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPERS:
            if any(True for _ in self.flow.called(node)):
                return
            for argument in node.args:
                targets = self.flow.target_slots(node.func.value, self.module)
                self.move(targets, argument.value, node, adds=True)


def _elements(node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """The elements of a display; None for anything else."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return [element.value for element in node.elements]
    return None


def _widths(structures: Iterable[Structure]) -> dict[object, int]:
    """Functions all of whose returns are displays of one length, with that length."""
    found: dict[object, set[int]] = defaultdict(set)
    for structure in structures:
        for node in structure.all(cst.Return):
            ones = _elements(node.value) if node.value is not None else None
            plain = ones is not None and not any(isinstance(e, cst.StarredElement) for e in ones)
            found[structure.function(node)].add(len(ones) if plain and ones else 0)
    return {f: min(sizes) for f, sizes in found.items() if len(sizes) == 1 and min(sizes)}


def _counts(node: cst.BaseExpression) -> bool:
    """``enumerate(...)``."""
    return isinstance(node, cst.Call) and origins.name_of(node.func) == "enumerate"


def parameters(function: FunctionNode) -> list[cst.Param]:
    """The named parameters of a function, in order."""
    given = function.params
    return [*given.posonly_params, *given.params, *given.kwonly_params]


def bindings(structure: Structure) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Every place that binds names, with its target."""
    for node in structure.all(cst.AssignTarget):
        yield node, node.target
    for one in structure.all(cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr):
        yield one, one.target
    for item in structure.all(cst.AsName):
        if isinstance(item.name, (cst.Name, cst.Tuple, cst.List)):
            yield item, item.name


def target_names(target: cst.BaseExpression) -> Iterator[str]:
    """The names that a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)
    elif isinstance(target, cst.StarredElement):
        yield from target_names(target.value)


def fresh_names(loop: cst.For | cst.While) -> set[str]:
    """Names that a loop's body surely sets in each round before it reads them."""
    fresh = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    read: set[str] = set()
    for one in _in_order(loop.body, True):
        name, written = one
        if written and name not in read:
            fresh.add(name)
        elif name not in fresh:
            read.add(name)
    return fresh


def _in_order(node: cst.CSTNode, surely: bool) -> Iterator[tuple[str, bool]]:
    """Names as they are evaluated, each with whether it is surely set there."""
    if isinstance(node, cst.Name):
        yield node.value, False
    elif isinstance(node, cst.Assign):
        yield from _in_order(node.value, surely)
        for target in node.targets:
            if surely:
                yield from ((name, True) for name in target_names(target.target))
            if not isinstance(target.target, (cst.Name, cst.Tuple, cst.List)) or not surely:
                yield from _in_order(target.target, surely)
    else:
        certain = isinstance(
            node,
            (
                cst.IndentedBlock,
                cst.SimpleStatementLine,
                cst.With,
                cst.Expr,
                cst.SimpleStatementSuite,
            ),
        )
        for child in children(node):
            yield from _in_order(child, surely and certain)
