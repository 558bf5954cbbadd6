"""Which names, attributes and results carry which labels, whatever the order of statements.

Labels (see :mod:`sources`) flow along assignments, arguments and returns of the project's own
functions. A name that passes through a collective anywhere counts as clean, and so does what is
made of such names alone, or of them and what all ranks have: this errs on the side of silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cached_property

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint import sources
from ddpify.understanding.taint.ancestry import Ancestry, Brings, all_sources
from ddpify.understanding.taint.cleaned_objects import CleanedObjects
from ddpify.understanding.taint.dependencies import Dependencies, Dependency
from ddpify.understanding.taint.flow_edges import Collector, FlowEdge
from ddpify.understanding.taint.locations import Location, Locations
from ddpify.understanding.taint.sources import (
    ANY_RANK,
    CLOCK,
    DATA,
    DEVICES,
    GIVEN,
    LOCAL,
    LOCAL_RANK,
    RANK,
    SANITIZED,
    SPAWNED,
    TAKEN,
    TOLD,
    TOTAL,
    WORLD,
)
from ddpify.understanding.taint.uncleaned import Uncleaned, places_of_reductions
from ddpify.understanding.taint.unseen_objects import UnseenObjects, note_reads
from ddpify.understanding.values import Instance

Entries = dict[str | None, set[str]]  # labels of a collection's entries; None for any of them
_OF_A_PROCESS = frozenset({LOCAL_RANK, SPAWNED})
_PARTS = frozenset({LOCAL, TOTAL, *TAKEN})
# What is the same on all ranks when a collective has had it, whatever it was made of.
_AGREED = _PARTS | ANY_RANK | {CLOCK}
_TOTALS = {LOCAL: TOTAL, GIVEN[LOCAL]: GIVEN[TOTAL]}


class Flow:
    """The labels of a project's expressions."""

    def __init__(self, facts: Facts, structures: dict[ModuleFile, Structure]) -> None:
        self.facts = facts
        self.structures = structures
        self.labels: dict[Location, set[str]] = defaultdict(set)
        self._entries: dict[Location, Entries] = defaultdict(lambda: defaultdict(set))
        self.begun: list[tuple[Location, str]] = []
        self._begun_at: dict[Location, set[str]] = defaultdict(set)
        self._extra: dict[cst.CSTNode, set[str]] = {}
        self._asked: dict[cst.CSTNode, frozenset[str]] = {}  # labels, until any are added
        self.edges: list[FlowEdge] = []
        self.joined: set[Location] = set()  # slots that another name of an unseen object sets
        self.sanitized: set[Location] = set()
        self._reduced_entries: dict[Location, set[str]] = defaultdict(set)
        self.names = Locations(facts, structures)
        self.made_of = Dependencies(facts, structures, self.names)
        where: dict[Location, list[cst.CSTNode]] = defaultdict(list)
        told: dict[str, set[Location]] = defaultdict(set)
        spawned: list[FlowEdge] = []
        computed: list[Dependency] = []
        in_place: set[Location] = set()
        copied: list[tuple[set[Location], set[Location]]] = []
        for module in structures:
            collector = Collector(self.made_of, self.made_of.widths, module)
            collector.collect()
            self.edges += collector.edges
            self.sanitized |= collector.sanitized.keys()
            for location, nodes in collector.sanitized.items():
                where[location] += nodes
            for name, locations in collector.told.items():
                told[name] |= locations
            spawned += collector.spawned
            computed += collector.computed_ranks
            in_place |= collector.in_place
            self._reduce_entries(collector.entries)
            copied += collector.copied
        self._join_unseen(where, in_place)
        for into, source in copied:
            if source & self.sanitized:
                in_place |= into
        self.made_of.count_gpus(self._counts_of_gpus())
        self._sanitize_arguments(in_place, where)
        self._pass_entries_back()
        self._sanitize_sent(where)
        self._objects = CleanedObjects(facts, structures)
        known = set(self.sanitized)
        self._sanitize_collections()
        self._sanitize_synchronised()
        places = {location: nodes for location, nodes in where.items() if location in known}
        for location, nodes in places_of_reductions(self.edges, facts).items():
            places.setdefault(location, []).extend(nodes)
        self.made_of.leave_uncleaned(Uncleaned(structures, places, self.edges_into))
        self._global_ranks = self._ranks_of_all(told["rank"], spawned, computed)
        self._spread({})
        self._label_told(told["rank"], TOLD, ANY_RANK)
        self._label_told(told["gpu"], TOLD, ANY_RANK)
        self._label_told(told["world_size"], WORLD, {WORLD})

    # ------------------------------------------------------------------ questions
    def of(self, node: cst.BaseExpression, module: ModuleFile) -> Set[str]:
        """The labels of an expression."""
        known = self._asked.get(node)
        if known is None:
            known = self._asked[node] = self._labels_of(node, module)
        return known

    def _labels_of(self, node: cst.BaseExpression, module: ModuleFile) -> frozenset[str]:
        found: set[str] = set()
        for one in self.made_of.of(node, module):
            labels = self._carried(one)
            if self._is_sanitized(one) or self._has_reduced_entries(one):
                labels = labels - _AGREED
            found |= labels - _PARTS if self._objects.cleans(one, asked=True) else labels
        return frozenset(TAKEN.get(label, label) for label in found)

    @property
    def numbers_nodes_apart(self) -> bool:
        """Whether the processes that a script starts are told their number in their node."""
        return bool(self._global_ranks)

    def is_agreed_on(self, locations: Iterable[Location]) -> bool:
        """Whether a collective makes the same on all ranks what is set, in some object at least."""
        return all(
            one in self.sanitized or one in self._objects.locations or self.has_reduced_entry(one)
            for one in locations
        )

    def has_reduced_entry(self, location: Location) -> bool:
        """Whether a collective gets an entry of a collection: ``all_reduce(totals["loss"])``."""
        return bool(self._reduced_entries.get(location))

    def is_reduced_before(self, one: Instance, text: cst.CSTNode, read: cst.CSTNode) -> bool:
        """Whether what an object's method makes a text of is whole where that object is shown."""
        return self._objects.is_reduced_before(one, text, read)

    def locations(self, node: cst.BaseExpression, module: ModuleFile) -> set[Location]:
        """The slots that an expression reads."""
        return self.made_of.locations_of(node, module)

    def sources(self, node: cst.BaseExpression, module: ModuleFile) -> set[str]:
        """All labels of anything that went into an expression's value, however indirectly."""
        found: set[str] = set()
        for one in self.ancestry(node, module):
            found |= {one.label} if one.location is None else self._begins(one.location)
        return found

    def ancestry(self, node: cst.BaseExpression, module: ModuleFile) -> Iterator[Dependency]:
        """Everything that went into an expression's value, however indirectly."""
        return self.ancestry_of([node], module)

    def ancestry_of(
        self, nodes: Iterable[cst.BaseExpression], module: ModuleFile
    ) -> Iterator[Dependency]:
        """Everything that went into the values of expressions of a file, gone through once."""
        return self.behind([one for node in nodes for one in self.made_of.of(node, module)])

    def behind(
        self, made: Iterable[Dependency], brings: Brings = all_sources
    ) -> Iterator[Dependency]:
        """These, and everything that went into them; ``brings`` says what moves bring of it."""
        return self._ancestry.of(made, brings)

    @cached_property
    def _ancestry(self) -> Ancestry:
        return Ancestry(self.structures, self._edges_by_location, self.edges_at)

    def _begins(self, location: Location) -> set[str]:
        """The labels that a slot has of itself, and not of what is moved there."""
        labels = self.labels.get(location, set())
        if not labels:
            return labels
        found = set(self._begun_at.get(location, ()))
        found |= {RANK} & labels if location in self._global_ranks else set()
        for edge in self._edges_by_location.get(location, ()):
            found |= self._extra.get(edge.value, set()) if edge.value is not None else set()
            found |= labels & {TOTAL, GIVEN[TOTAL]} if edge.adds else set()
        return found

    def copied_from(self, nodes: Iterable[cst.BaseExpression], module: ModuleFile) -> set[Location]:
        """The slots from which expressions of a file come by plain moves, such as a sorted list."""
        todo = [one for node in nodes for one in self.made_of.of(node, module)]
        found = set[Location]()
        while todo:
            one = todo.pop()
            if one.pure and one.location is not None and one.location not in found:
                found.add(one.location)
                todo += self._made_from.get(one.location, ())
        return found

    def edges_at(self, node: cst.CSTNode) -> list[FlowEdge]:
        """The moves that a node makes."""
        return self._edges_by_node.get(node, [])

    def edges_into(self, locations: set[Location]) -> list[FlowEdge]:
        """The moves that set any of these slots."""
        found = {
            id(edge): edge
            for location in locations
            for edge in self._edges_by_location.get(location, ())
        }
        return list(found.values())

    @cached_property
    def _edges_by_location(self) -> dict[Location, list[FlowEdge]]:
        found: dict[Location, list[FlowEdge]] = defaultdict(list)
        for edge in self.edges:
            for location in edge.targets:
                found[location].append(edge)
        return dict(found)

    @cached_property
    def _edges_by_node(self) -> dict[cst.CSTNode, list[FlowEdge]]:
        found: dict[cst.CSTNode, list[FlowEdge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.node].append(edge)
        return dict(found)

    def derived(
        self, start: Iterable[Location], without: Callable[[FlowEdge], bool] | None = None
    ) -> set[Location]:
        """All slots whose values are made from these, ``without`` what some moves bring."""
        found = set(start)
        todo = list(found)
        while todo:
            for edge in self._users.get(todo.pop(), ()):
                if without is not None and without(edge):
                    continue
                fresh = [target for target in edge.targets if target not in found]
                found.update(fresh)
                todo += fresh
        return found

    @cached_property
    def _made_from(self) -> dict[Location, list[Dependency]]:
        """What each slot is made from."""
        made: dict[Location, list[Dependency]] = defaultdict(list)
        for edge in self.edges:
            for location in edge.targets:
                made[location] += edge.source
        return dict(made)

    @cached_property
    def _users(self) -> dict[Location, list[FlowEdge]]:
        """Where each slot's value goes."""
        users: dict[Location, list[FlowEdge]] = defaultdict(list)
        for edge in self.edges:
            for one in edge.source:
                for inner in _read_by(one):
                    if inner.location is not None:
                        users[inner.location].append(edge)
        return dict(users)

    # ------------------------------------------------------------------ solving
    def _join_unseen(
        self, where: dict[Location, list[cst.CSTNode]], in_place: set[Location]
    ) -> None:
        """Let what sets an attribute of an object that is not seen set it in all files."""
        note_reads(self.edges, self.names)
        objects = UnseenObjects(self.edges, self.names.of_unseen)
        for edge in self.edges:
            more = {slot: None for one in edge.targets for slot in objects.others(one)}
            self.joined.update(more)
            edge.targets = list(dict.fromkeys([*edge.targets, *more]))
        for slot in list(where):
            for other in objects.others(slot):
                where[other] = where[slot] = list(dict.fromkeys([*where[slot], *where[other]]))
                self.sanitized.add(other)
        in_place |= {other for slot in in_place for other in objects.others(slot)}

    def _ranks_of_all(
        self, told: set[Location], spawned: list[FlowEdge], computed: list[Dependency]
    ) -> set[Location]:
        """What holds the rank where it is made of the number that a started process gets.

        ``rank = node * gpus + number``: the number itself then is that of the process in its node.
        """
        copies = self._copied_into(told)
        known = {one.location for one in computed if one.location is not None} - told
        found: set[Location] = set()
        for edge in spawned:
            made = self.derived(edge.targets)
            if copies.isdisjoint(edge.targets) and (made & copies or made & known):
                edge.source = [Dependency(label=LOCAL_RANK)]
                found |= copies
        return found

    def _counts_of_gpus(self) -> set[Location]:
        """What holds how many GPUs there are, as ``torch.cuda.device_count()`` says."""
        found: set[Location] = set()
        todo = [e for e in self.edges if any(one.label == DEVICES for one in e.source)]
        while todo:
            edge = todo.pop()
            if edge.value is not None and all(one.node is edge.value for one in edge.source[:1]):
                fresh = set(edge.targets) - found
                found |= fresh
                todo += [user for one in fresh for user in self._users.get(one, ())]
        return found

    def _copied_into(self, locations: set[Location]) -> set[Location]:
        """Slots, and those whose values are copied into them as they are."""
        todo, seen = list(locations), set(locations)
        while todo:
            for edge in self.edges_into({todo.pop()}):
                fresh = [one for one in _handed_on(edge) if one not in seen]
                todo += fresh
                seen.update(fresh)
        return seen

    def _label_told(self, told: set[Location], label: str, known: Set[str]) -> None:
        """What the process group is told to be the rank is one, wherever it came from; so is the
        number of ranks.
        """
        todo, seen = list(told), set(told)
        while todo:
            for edge in self.edges_into({todo.pop()}):
                if edge.passes:
                    fresh = [one for one in _handed_on(edge) if one not in seen]
                    todo += fresh
                    seen.update(fresh)
        unknown = {location for location in seen if not self.labels[location] & known}
        for location in unknown:
            self.begin(location, label)
        if unknown:
            self._spread({})

    def begin(self, location: Location, label: str) -> None:
        """Let taint begin at a location; ``solve`` follows it from there."""
        self.begun.append((location, label))
        self._begun_at[location].add(label)
        self._begin(location, label)

    def _begin(self, location: Location, label: str) -> None:
        self._asked.clear()
        self.labels[location].add(label)
        self._entries[location][None].add(label)

    def solve(self, extra: dict[cst.CSTNode, set[str]] | None = None) -> None:
        """Propagate labels, once; ``extra`` labels what comes out of these expressions."""
        extra = self._extra = extra or {}
        self._spread(extra)
        if self._propagate_sanitized(extra):  # which was seen by labels that are too many now
            self.labels.clear()
            self._entries.clear()
            for location, label in self.begun:
                self._begin(location, label)
            self._spread(extra)

    def _spread(self, extra: dict[cst.CSTNode, set[str]]) -> None:
        """Follow all labels along all moves, again along those that read what has changed."""
        self._asked.clear()
        due = set(range(len(self.edges)))
        while due:
            now, due = sorted(due), set()
            for number in now:
                edge = self.edges[number]
                own = extra.get(edge.value, set()) if edge.value is not None else set()
                for location in self._take(edge, self._incoming(edge, own)):
                    due.update(self._readers.get(location, ()))

    def _take(self, edge: FlowEdge, entries: Entries) -> Iterator[Location]:
        """Let the targets of a move have what it brings; those for which any of it is new."""
        for location in edge.targets:
            grown = False
            for key, labels in entries.items():
                new = self._fitted(labels, edge, location, key)
                for known in (self.labels[location], self._entries[location][key]):
                    grown |= not new <= known
                    known |= new
            if grown:
                yield location

    @cached_property
    def _readers(self) -> dict[Location, list[int]]:
        """The numbers of the moves that read each slot."""
        found: dict[Location, list[int]] = defaultdict(list)
        for number, edge in enumerate(self.edges):
            for location in dict.fromkeys(_slots_of(edge.source)):
                found[location].append(number)
        return dict(found)

    def _fitted(
        self, labels: set[str], edge: FlowEdge, location: Location, key: str | None
    ) -> set[str]:
        """What of a move's labels its target, or the entry of it under a key, takes."""
        if location in self.sanitized or key in self._reduced_entries.get(location, ()):
            labels = labels - _AGREED
        if location in self._global_ranks and labels & _OF_A_PROCESS:
            labels = labels - _OF_A_PROCESS | {RANK}
        if edge.passes:
            return {GIVEN.get(label, label) for label in labels}
        if location[0] == "attribute":  # outlives the call
            return {TAKEN.get(label, label) for label in labels}
        return labels

    def _incoming(self, edge: FlowEdge, extra: set[str]) -> Entries:
        """The labels that a move brings; those of a copy for each entry that is known apart."""
        found = set(extra)
        copied: Entries = {}
        for one in edge.source:
            copies = one.node is edge.value and one.key is None
            if one.location is None or not copies:
                found |= self._carried(one)
            elif one.given is None:
                copied = dict(self._entries[one.location])
            else:
                for key, labels in list(self._entries[one.location].items()):
                    copied[key] = copied.get(key, set()) | self._brought(one, labels)
        if edge.key is not None or edge.adds:
            found = found.union(*copied.values())
            copied = {}
        if edge.part and any(map(self._is_sanitized, edge.source)):
            found -= _PARTS
        if edge.adds:
            found |= {total for local, total in _TOTALS.items() if local in found}
        entries = {key: labels - {SANITIZED} for key, labels in copied.items()}
        entries[edge.key] = entries.get(edge.key, set()) | (found - {SANITIZED})
        return entries

    def _carried(self, one: Dependency) -> set[str]:
        """The labels that one dependency brings."""
        if one.location is None:
            return {one.label}
        labels = self.labels.get(one.location, set())
        if one.key is not None:
            entries = self._entries[one.location]
            labels = entries[None] | entries[one.key]
        return self._brought(one, labels)

    def _brought(self, one: Dependency, labels: set[str]) -> set[str]:
        """What a dependency brings of the labels of what it reads; of a result, for its call."""
        if labels and self._objects.cleans(one):
            labels = labels - _PARTS
        if one.reduced:
            labels = labels - {*_PARTS, CLOCK}
        if one.given is not None:
            found = labels - set(TAKEN)
            if labels & set(TAKEN):  # the result is made of what is passed
                for argument in one.given:
                    found |= self._carried(argument) & DATA
            labels = found
        return labels if one.pure else labels & DATA

    def _propagate_sanitized(self, extra: dict[cst.CSTNode, set[str]]) -> bool:
        """Follow what is reduced, as far as nothing of a rank's own meets it; whether any is.

        A reduced entry of a collection, as in ``losses["a"] = mean(a)``, is that entry alone. What
        gives a rank its batches is its own, whatever else does so: a logger that is reduced later.
        """
        edges = [
            edge
            for edge in self.edges
            if not (edge.part or self._is_never_run(edge))
            and not (edge.value is not None and extra.get(edge.value, set()) & _PARTS)
        ]
        changed, found = True, False
        while changed:
            changed = False
            for edge in edges:
                if any(map(self._is_sanitized, edge.source)) and not self._has_own_part(edge):
                    changed = self._sanitize(edge, edge.key) or changed
                for one in filter(self._has_reduced_entries, edge.source):
                    changed = self._pass_reduced_entries(edge, one) or changed
            found = found or changed
        return found

    def _has_own_part(self, edge: FlowEdge) -> bool:
        """Whether something that is a rank's own goes into a move, beside what is reduced."""
        return any(
            self._carried(one) & _PARTS
            for one in edge.source
            if not (self._is_sanitized(one) or self._has_reduced_entries(one))
        )

    def _is_sanitized(self, one: Dependency) -> bool:
        """Whether all that a dependency brings is reduced."""
        if one.reduced or one.label == SANITIZED or one.location in self.sanitized:
            return True
        if self._objects.cleans(one):
            return True
        return one.location is not None and (
            one.key is not None and one.key in self._reduced_entries.get(one.location, ())
        )

    def _has_reduced_entries(self, one: Dependency) -> bool:
        """Whether a dependency reads a whole collection, and some of its entries are reduced."""
        if one.location is None or one.key is not None:
            return False
        return bool(self._reduced_entries.get(one.location))

    def _pass_reduced_entries(self, edge: FlowEdge, one: Dependency) -> bool:
        """Follow a collection: a copy has the same entries, and ``x[k] = f(x[k])`` changes none.

        Which of its entries goes on otherwise is not known: it may be a reduced one.
        """
        assert one.location is not None
        if one.location in edge.targets:
            return False
        if one.node is not edge.value or edge.key is not None:
            return self._sanitize(edge, edge.key)
        changed = False
        for key in list(self._reduced_entries[one.location]):
            changed = self._sanitize(edge, key) or changed
        return changed

    def _sanitize(self, edge: FlowEdge, key: str | None) -> bool:
        """Call what a move sets, or its entry under a key, reduced; whether that is new."""
        if key is None:
            fresh = set(edge.targets) - self.sanitized - self._objects.locations
            self.sanitized |= fresh
            return bool(fresh)
        new = [one for one in edge.targets if key not in self._reduced_entries[one]]
        for location in new:
            self._reduced_entries[location].add(key)
        return bool(new)

    def _is_never_run(self, edge: FlowEdge) -> bool:
        """Whether a move is in a method that nothing in sight names, of a class without bases.

        A meter's ``synchronize()`` reduces nothing where it is not called.
        """
        structure = next(s for s in self.structures.values() if edge.node in s.parents)
        name = _method_around(structure, edge.node)
        return name is not None and name not in self._attributes

    @cached_property
    def _attributes(self) -> set[str]:
        """The names of all attributes that the project reads, calls or sets: in a method, where
        anything names that.
        """
        named = [
            (one.attr.value, _method_around(structure, one))
            for structure in self.structures.values()
            for one in structure.all(cst.Attribute)
        ]
        found: set[str] = set()
        while True:
            fresh = {name for name, around in named if around is None or around in found} - found
            if not fresh:
                return found
            found |= fresh

    def _sanitize_sent(self, where: dict[Location, list[cst.CSTNode]]) -> None:
        """``stop = sent[0]`` on the others, where rank 0 has put its ``stop`` into what is sent."""
        for edge in self.edges:
            sent = {one.location for one in edge.source if one.location in self.sanitized}
            names = {slot for slot in edge.targets if slot[0] == "name"} if sent else set()
            put = {one.location for move in self.edges_into(sent) for one in move.source}
            if not names.isdisjoint(put):
                # Under a condition, a name has a slot of its own beside that of its function.
                texts = {slot[-1] for slot in names}
                own = {slot for move in self.edges_into(names) for slot in move.targets}
                for location in (one for one in own if one[-1] in texts):
                    where[location].append(edge.node)
                    self.sanitized.add(location)

    def _sanitize_arguments(
        self, in_place: set[Location], where: dict[Location, list[cst.CSTNode]]
    ) -> None:
        """What the project's functions get and a collective changes in them: ``reduce(total)``."""
        todo = list(in_place)
        while todo:
            for edge in self._edges_by_location.get(todo.pop(), ()):
                if edge.passes and isinstance(edge.value, (cst.Name, cst.Attribute)):
                    given = _handed_on(edge)
                    for location in given:
                        where[location].append(edge.node)
                    todo += [one for one in given if one not in self.sanitized]
                    self.sanitized.update(given)

    def _reduce_entries(self, entries: Iterable[tuple[Location, str]]) -> None:
        for location, key in entries:
            self._reduced_entries[location].add(key)

    def _pass_entries_back(self) -> None:
        """The same of single entries: ``reduce(totals)``, where it gets ``totals["loss"]``."""
        todo = list(self._reduced_entries)
        while todo:
            location = todo.pop()
            for edge in self._edges_by_location.get(location, ()):
                given = _handed_on(edge) if edge.passes else []
                for one in given:
                    fresh = self._reduced_entries[location] - self._reduced_entries[one]
                    self._reduced_entries[one] |= fresh
                    todo += [one] if fresh else []

    def _sanitize_collections(self) -> None:
        """What a loop hands to a collective one by one: ``for one in totals: all_reduce(one)``."""
        for edge in self.edges:
            loops = isinstance(edge.node, (cst.For, cst.CompFor))
            if loops and self.sanitized.intersection(edge.targets):
                sources = (one for one in edge.source if not self._is_loader(one.node))
                self.sanitized.update(one.location for one in sources if one.location is not None)

    def _is_loader(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression may be a loader, whose batches stay what they are."""
        held = self.facts.values.get(node) if node is not None else None
        atoms = held.atoms if held is not None else ()
        return any(isinstance(a, Instance) and is_loader(a) for a in atoms)

    def _sanitize_synchronised(self) -> None:
        """Objects that are not seen, with a method that reduces them; by its name.

        It only silences.
        """
        self.sanitized -= self._objects.locations
        for module, receiver in self._objects.unseen:
            self.sanitized |= self.locations(receiver, module)


def _slots_of(dependencies: Iterable[Dependency]) -> Iterator[Location]:
    """The slots that are read, also by the arguments of calls whose results are."""
    for one in dependencies:
        if one.location is not None:
            yield one.location
        yield from _slots_of(one.given or ())


def _read_by(one: Dependency) -> Iterator[Dependency]:
    """What a move reads: of what a function is given, only what it makes its result of.

    That goes from the function's parameters to its result in moves of its own.
    """
    yield one
    if one.location is None or one.location[0] != "result":
        yield from one.given or ()


def _method_around(structure: Structure, node: cst.CSTNode) -> str | None:
    """The name of the method around a node, of a class without bases that is run by its name."""
    function = structure.function(node)
    owner = structure.class_of(function) if function is not None else None
    if function is None or owner is None or function.name.value.startswith("__"):
        return None
    if any(sources.name_of(base.value) != "object" for base in owner.bases):
        return None
    return function.name.value


def _handed_on(edge: FlowEdge) -> list[Location]:
    """The slots whose value an edge takes on as it is."""
    same = (one.location for one in edge.source if one.node is edge.value)
    return list(dict.fromkeys(one for one in same if one is not None))
