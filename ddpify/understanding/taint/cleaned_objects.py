"""Objects whose methods reduce what they keep, such as ``meter.synchronize()``.

Such a call makes whole what the object keeps that it is called on, and what the objects keep that
this one holds: another meter of its class has its own numbers as before. Nor does it change what
was read of the object before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sanitizers import reducing_methods, synchronising_calls
from ddpify.understanding.values import Class, Instance, Value

_DEEPEST = 4  # objects in objects that a call may reduce


class CleanedObjects:
    """Which attributes of which objects are reduced, and by which calls."""

    def __init__(self, facts: Facts, structures: dict[ModuleFile, Structure]) -> None:
        self._facts, self._structures = facts, structures
        # Calls whose object is not seen: what they are called on is clean, whatever it is.
        self.unseen: list[tuple[ModuleFile, cst.BaseExpression]] = []
        own: dict[object, set[str]] = defaultdict(set)  # attributes by the class that reduces them
        self._places: dict[tuple[Instance, str], list[cst.CSTNode]] = defaultdict(list)
        self._given: dict[cst.FunctionDef, set[str]] = {}
        self._known: dict[tuple[Location, cst.CSTNode, bool], bool] = {}
        methods = reducing_methods(structures)
        for module, call, name in synchronising_calls(structures, methods):
            assert isinstance(call.func, cst.Attribute)
            if any(library_names(facts.values.get(call.func))):
                continue  # ``dist.all_reduce(x)``, beside methods of this name
            for owner, names in methods[name].items():
                own[owner] |= names
            if not self._is_seen(call.func.value):
                self.unseen.append((module, call.func.value))
            for one in self._called_on(call, module, name, methods):
                for attribute in {x for y in _ancestors(one) for x in methods[name].get(y, ())}:
                    self._places[one, attribute].append(call)
        self._reduced = {**own, **self._inherited(own)}
        # The attributes that are reduced of some object.
        self.locations: set[Location] = {
            ("attribute", owner, name) for owner, names in self._reduced.items() for name in names
        }

    def cleans(self, one: Dependency, *, asked: bool = False) -> bool:
        """Whether what an expression reads of an object may be reduced there.

        A class reads the attributes of all of its objects. What it makes of them is as whole as
        the object is that it is asked of; only where it is ``asked`` what stands in a method
        itself, the objects that all others see decide.
        """
        if one.location is None or one.node is None or not self._reduced:
            return False
        key = one.location, one.node, asked
        if key not in self._known:
            self._known[key] = self._is_cleaned(one, asked)
        return self._known[key]

    def is_reduced_before(self, one: Instance, text: cst.CSTNode, read: cst.CSTNode) -> bool:
        """Whether what a method of an object's class makes a text of is reduced for that object by
        a call that comes before a place.
        """
        structure = next((s for s in self._structures.values() if text in s.parents), None)
        function = structure.function(text) if structure is not None else None
        names = self._reduced_in(("result", function)) if function is not None else set[str]()
        return any(self._may_precede(at, read) for name in names for at in self._places[one, name])

    def _is_cleaned(self, one: Dependency, asked: bool) -> bool:
        node = one.node.func if isinstance(one.node, cst.Call) else one.node
        names = self._reduced_in(one.location)
        if not names or not isinstance(node, cst.Attribute):
            return False
        own, held = _is_self(node.value), self._atoms(node.value)
        cleaned = [
            any(
                self._may_precede(at, node)
                and (asked or not own or self._class_around(at) is self._class_around(node))
                for name in names
                for at in self._places[atom, name]
            )
            for atom in held
            if isinstance(atom, Instance)
        ]
        if not (own or asked) and self._is_asked_of_holder(node):
            return False
        return bool(cleaned) and (all(cleaned) if own else any(cleaned))

    def _is_asked_of_holder(self, node: cst.CSTNode) -> bool:
        """Whether a read is in a method of an object that is reduced with those that it holds: what
        it gives, as ``averages()`` of a logger's meters, is as whole as that object is.
        """
        return bool(self._reduced.get(self._class_around(node)))

    def _class_around(self, node: cst.CSTNode) -> cst.ClassDef | None:
        structure = next((s for s in self._structures.values() if node in s.parents), None)
        function = structure.function(node) if structure is not None else None
        return structure.class_of(function) if structure and function is not None else None

    def _reduced_in(self, location: Location | None) -> set[str]:
        """Those of the reduced attributes that an attribute, property or method gives."""
        if location is None or (len(location) != 3 and location[0] != "result"):
            return set()
        if location in self.locations:
            return {str(location[2])}
        function = location[1]
        if location[0] != "result" or not isinstance(function, cst.FunctionDef):
            return set()
        if function not in self._given:
            self._given[function] = self._read_by(function)
        return self._given[function]

    def _read_by(self, function: cst.FunctionDef) -> set[str]:
        """What a method reads of what another one of its class reduces."""
        structure = next((s for s in self._structures.values() if function in s.parents), None)
        owner = structure.class_of(function) if structure is not None else None
        todo, read = [function], set[str]()
        while todo:
            named = {x.attr.value for x in walk(todo.pop().body) if isinstance(x, cst.Attribute)}
            todo += [one for one in _methods(owner) if one.name.value in named - read]
            read |= named
        return self._reduced.get(owner, set()) & read

    def _may_precede(self, place: cst.CSTNode, read: cst.CSTNode | None) -> bool:
        """Whether a call may come before a place: in its function, or in a loop around both."""
        structure = next((s for s in self._structures.values() if place in s.order), None)
        if structure is None or read not in structure.order or read is None:
            return True
        if structure.function(place) is not structure.function(read):
            return True
        loops = {*structure.loops(place)} & {*structure.loops(read)}
        return bool(loops) or structure.order[place] <= structure.order[read]

    def _is_seen(self, receiver: cst.BaseExpression) -> bool:
        """Whether an object is `self`, or of a class of the project: its attributes tell."""
        return _is_self(receiver) or any(
            isinstance(a, Instance) and isinstance(a.type, Class) for a in self._atoms(receiver)
        )

    def _called_on(
        self,
        call: cst.Call,
        module: ModuleFile,
        name: str,
        methods: dict[str, dict[object, set[str]]],
    ) -> Iterator[Instance]:
        """The objects that a call reduces: all of the class where it is not seen which one, and not
        if that is of another class, with a method of this name.
        """
        assert isinstance(call.func, cst.Attribute)
        owners = set(methods[name])
        function = self._structures[module].function(call)
        within = function is not None and function.name.value in methods
        receivers = [a for a in self._atoms(call.func.value) if isinstance(a, Instance)]
        given = [a for x in call.args for a in self._atoms(x.value) if isinstance(a, Instance)]
        known = [*_held([*receivers, *given])]
        if within and not _is_self(call.func.value):
            names = {x for attributes in methods[name].values() for x in attributes}
            if any(one in known for one, attribute in self._places if attribute in names):
                return  # noted with what the method around it is called on
        yield from known
        another = any(isinstance(one.type, Class) and one.type.find(name) for one in receivers)
        if not another and not any(_is_of(one, owners) for one in known):
            yield from (one for one in self._instances if _is_of(one, owners))

    @cached_property
    def _instances(self) -> list[Instance]:
        held = (atom for value in self._facts.values.values() for atom in value.atoms)
        return [*dict.fromkeys(a for a in held if isinstance(a, Instance) and _ancestors(a))]

    def _inherited(self, own: dict[object, set[str]]) -> dict[object, set[str]]:
        """What objects of classes keep that inherit from one that reduces it."""
        classes = {one.type for one in self._instances} if own else set()
        return {
            one.node: {name for base in _ancestors_of(one) for name in own.get(base, ())}
            for one in classes
            if isinstance(one, Class)
        }

    def _atoms(self, node: cst.BaseExpression) -> Iterable[object]:
        held: Value | None = self._facts.values.get(node)
        return held.atoms if held is not None else ()


def _methods(owner: cst.ClassDef | None) -> Iterator[cst.FunctionDef]:
    body = owner.body.body if owner is not None else ()
    return (one for one in body if isinstance(one, cst.FunctionDef))


def _is_self(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "self"


def _is_of(one: Instance, owners: set[object]) -> bool:
    """Whether an object is of one of these classes, or of one that inherits from them."""
    return not owners.isdisjoint(_ancestors(one))


def _ancestors(one: Instance) -> list[cst.CSTNode]:
    return [*_ancestors_of(one.type)] if isinstance(one.type, Class) else []


def _ancestors_of(one: Class) -> Iterator[cst.CSTNode]:
    yield one.node
    for base in one.project_bases():
        yield from _ancestors_of(base)


def _held(start: list[Instance]) -> Iterator[Instance]:
    """Objects, and those that they hold."""
    todo, seen = [(one, _DEEPEST) for one in start], set(start)
    while todo:
        one, further = todo.pop()
        yield one
        for inner in one.held() if further else ():
            if isinstance(inner, Instance) and inner not in seen:
                seen.add(inner)
                todo.append((inner, further - 1))
