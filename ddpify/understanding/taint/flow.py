"""Which names, attributes and results carry which labels, whatever the order of statements.

Labels (see :mod:`origins`) flow along assignments, arguments and returns of the project's own
functions. A name that passes through a collective anywhere counts as clean: this errs on the side
of silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.kinds import is_loader
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.dependencies import Dependencies, Dependency
from ddpify.understanding.taint.flow_edges import Collector, Move
from ddpify.understanding.taint.locations import Slot, Slots
from ddpify.understanding.taint.sanitizers import reducing_methods, synchronising_calls
from ddpify.understanding.taint.sources import (
    ANY_RANK,
    CLEAN,
    CLOCK,
    DATA,
    GIVEN,
    LOCAL,
    TAKEN,
    TOLD,
    TOTAL,
)
from ddpify.understanding.taint.uncleaned import Uncleaned
from ddpify.understanding.values import Class, Instance

Entries = dict[str | None, set[str]]  # labels of a collection's entries; None for any of them
_TOTALS = {LOCAL: TOTAL, GIVEN[LOCAL]: GIVEN[TOTAL]}


class Flow:
    """The labels of a project's expressions."""

    def __init__(self, facts: Facts, structures: dict[ModuleFile, Structure]) -> None:
        self.facts = facts
        self.structures = structures
        self.labels: dict[Slot, set[str]] = defaultdict(set)
        self._entries: dict[Slot, Entries] = defaultdict(lambda: defaultdict(set))
        self.moves: list[Move] = []
        self.cleaned: set[Slot] = set()
        self.names = Slots(facts, structures)
        self.made_of = Dependencies(facts, structures, self.names)
        where: dict[Slot, list[cst.CSTNode]] = defaultdict(list)
        ranks: set[Slot] = set()
        in_place: set[Slot] = set()
        copied: list[tuple[set[Slot], set[Slot]]] = []
        for module in structures:
            collector = Collector(self.made_of, self.made_of.widths, module)
            collector.collect()
            self.moves += collector.moves
            self.cleaned |= collector.cleaned.keys()
            for slot, nodes in collector.cleaned.items():
                where[slot] += nodes
            ranks |= collector.ranks
            in_place |= collector.in_place
            copied += collector.copied
        for into, source in copied:
            if source & self.cleaned:
                in_place |= into
        self._clean_arguments(in_place, where)
        known = set(self.cleaned)
        self._clean_collections()
        self._clean_synchronised()
        places = {slot: nodes for slot, nodes in where.items() if slot in known}
        self.made_of.leave_uncleaned(Uncleaned(structures, places, self.moves_to))
        self.solve()
        self._label_ranks(ranks)

    # ------------------------------------------------------------------ questions
    def of(self, node: cst.BaseExpression, module: ModuleFile) -> set[str]:
        """The labels of an expression."""
        found: set[str] = set()
        for one in self.made_of.of(node, module):
            found |= self._carried(one)
        found = {TAKEN.get(label, label) for label in found}
        if CLEAN in found or any(d.slot in self.cleaned for d in self.made_of.of(node, module)):
            found -= {LOCAL, TOTAL, CLOCK}
        return found

    def slots(self, node: cst.BaseExpression, module: ModuleFile) -> set[Slot]:
        """The slots that an expression reads."""
        return self.made_of.slots_of(node, module)

    def origins(self, node: cst.BaseExpression, module: ModuleFile) -> set[str]:
        """All labels of anything that went into an expression's value, however indirectly."""
        found: set[str] = set()
        for one in self.ancestry(node, module):
            found |= {one.label} if one.slot is None else self.labels.get(one.slot, set())
        return found

    def ancestry(self, node: cst.BaseExpression, module: ModuleFile) -> Iterator[Dependency]:
        """Everything that went into an expression's value, however indirectly."""
        made = self._sources
        todo, seen = list(self.made_of.of(node, module)), set[Slot]()
        while todo:
            one = todo.pop()
            yield one
            if one.slot is None or len(one.slot) < 3 or one.slot[0] != "result":
                todo += one.given or ()  # one element of a result is made of its own parts alone
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

    def derived(
        self, start: Iterable[Slot], without: Callable[[Move], bool] | None = None
    ) -> set[Slot]:
        """All slots whose values are made from these, ``without`` what some moves bring."""
        found = set(start)
        todo = list(found)
        while todo:
            for move in self._users.get(todo.pop(), ()):
                if without is not None and without(move):
                    continue
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
    def _label_ranks(self, told: set[Slot]) -> None:
        """What the process group is told to be the rank is one, wherever it came from."""
        todo, seen = sorted(told, key=str), set(told)
        while todo:
            for move in self.moves_to({todo.pop()}):
                if move.passes:
                    same = {one.slot for one in move.source if one.node is move.value and one.slot}
                    todo += sorted(same - seen, key=str)
                    seen |= same
        unknown = {slot for slot in seen if not self.labels[slot] & ANY_RANK}
        for slot in unknown:
            self.labels[slot].add(TOLD)
            self._entries[slot][None].add(TOLD)
        if unknown:
            self.solve()

    def solve(self, extra: dict[cst.CSTNode, set[str]] | None = None) -> None:
        """Propagate labels; ``extra`` labels what comes out of these expressions."""
        extra = extra or {}
        self._spread_cleanliness()
        changed = True
        while changed:
            changed = False
            for move in self.moves:
                own = extra.get(move.value, set()) if move.value is not None else set()
                entries = self._incoming(move, own)
                for slot in move.targets:
                    for key, labels in entries.items():
                        new = self._fitted(labels, move, slot)
                        for known in (self.labels[slot], self._entries[slot][key]):
                            if not new <= known:
                                known |= new
                                changed = True

    def _fitted(self, labels: set[str], move: Move, slot: Slot) -> set[str]:
        """What of a move's labels its target takes."""
        if slot in self.cleaned:
            labels = labels - {LOCAL, TOTAL, *TAKEN}
        if move.passes:
            return {GIVEN.get(label, label) for label in labels}
        if slot[0] == "attribute":  # outlives the call
            return {TAKEN.get(label, label) for label in labels}
        return labels

    def _incoming(self, move: Move, extra: set[str]) -> Entries:
        """The labels that a move brings; those of a copy for each entry that is known apart."""
        found = set(extra)
        copied: Entries = {}
        for one in move.source:
            copies = one.node is move.value and one.key is None and one.given is None
            if one.slot is not None and copies:
                copied = self._entries[one.slot]
            else:
                found |= self._carried(one)
        if move.key is not None or move.adds:
            found = found.union(*copied.values())
            copied = {}
        if move.adds:
            found |= {total for local, total in _TOTALS.items() if local in found}
        entries = {key: labels - {CLEAN} for key, labels in copied.items()}
        entries[move.key] = entries.get(move.key, set()) | (found - {CLEAN})
        return entries

    def _carried(self, one: Dependency) -> set[str]:
        """The labels that one dependency brings."""
        if one.slot is None:
            return {one.label}
        labels = self.labels.get(one.slot, set())
        if one.key is not None:
            entries = self._entries[one.slot]
            labels = entries[None] | entries[one.key]
        if one.given is not None:
            found = labels - set(TAKEN)
            if labels & set(TAKEN):  # the result is made of what is passed
                for argument in one.given:
                    found |= self._carried(argument) & DATA
            labels = found
        return labels if one.pure else labels & DATA

    def _spread_cleanliness(self) -> None:
        moves = [move for move in self.moves if not self._is_never_run(move)]
        changed = True
        while changed:
            changed = False
            for move in moves:
                if any(d.label == CLEAN or d.slot in self.cleaned for d in move.source):
                    fresh = set(move.targets) - self.cleaned
                    self.cleaned |= fresh
                    changed = changed or bool(fresh)

    def _is_never_run(self, move: Move) -> bool:
        """Whether a move is in a method that nothing in sight names, of a class without bases.

        A meter's ``synchronize()`` makes nothing whole where it is not called.
        """
        structure = next(s for s in self.structures.values() if move.node in s.parents)
        function = structure.function(move.node)
        owner = structure.class_of(function) if function is not None else None
        return (
            function is not None
            and owner is not None
            and not owner.bases
            and not function.name.value.startswith("__")
            and function.name.value not in self._attributes
        )

    @cached_property
    def _attributes(self) -> set[str]:
        """The names of all attributes that the project reads, calls or sets."""
        return {
            one.attr.value
            for structure in self.structures.values()
            for one in structure.all(cst.Attribute)
        }

    def _clean_arguments(self, in_place: set[Slot], where: dict[Slot, list[cst.CSTNode]]) -> None:
        """What the project's functions get and a collective changes in them: ``reduce(total)``."""
        todo = list(in_place)
        while todo:
            for move in self._moves_by_slot.get(todo.pop(), ()):
                if move.passes and isinstance(move.value, (cst.Name, cst.Attribute)):
                    given = {one.slot for one in move.source if one.node is move.value and one.slot}
                    for slot in given:
                        where[slot].append(move.node)
                    todo += sorted(given - self.cleaned, key=str)
                    self.cleaned |= given

    def _clean_collections(self) -> None:
        """What a loop hands to a collective one by one: ``for one in totals: all_reduce(one)``."""
        for move in self.moves:
            if isinstance(move.node, cst.For) and self.cleaned.intersection(move.targets):
                sources = (one for one in move.source if not self._is_loader(one.node))
                self.cleaned.update(one.slot for one in sources if one.slot is not None)

    def _is_loader(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression may be a loader, whose batches stay what they are."""
        held = self.facts.values.get(node) if node is not None else None
        atoms = held.atoms if held is not None else ()
        return any(isinstance(a, Instance) and is_loader(a) for a in atoms)

    def _clean_synchronised(self) -> None:
        """Objects with a method that reduces them, when the method is called anywhere.

        Such methods (``meters.synchronize()``) are matched by name where the object is unknown:
        it only silences.
        """
        methods = reducing_methods(self.structures)
        reduced: dict[object, set[str]] = defaultdict(set)
        for module, call, name in synchronising_calls(self.structures, methods):
            assert isinstance(call.func, cst.Attribute)
            if not self._is_seen(call.func.value):
                self.cleaned |= self.slots(call.func.value, module)
            for owner, names in methods[name].items():
                reduced[owner] |= names
        held = {slot for move in self.moves for slot in move.targets}
        self.cleaned |= {
            slot for slot in held if slot[0] == "attribute" and slot[2] in reduced.get(slot[1], ())
        }

    def _is_seen(self, receiver: cst.BaseExpression) -> bool:
        """Whether an object is `self`, or of a class of the project: its attributes tell."""
        if isinstance(receiver, cst.Name) and receiver.value == "self":
            return True
        held = self.facts.values.get(receiver)
        atoms = held.atoms if held is not None else ()
        return any(isinstance(a, Instance) and isinstance(a.type, Class) for a in atoms)
