"""What the value of an expression is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import METRICS, is_wrapper, library_names
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.libraries.runtime_names import BROADCAST
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, children, walk
from ddpify.understanding.syntax import argument as given_as
from ddpify.understanding.taint import sources
from ddpify.understanding.taint.call_graph import called, partials, read_as
from ddpify.understanding.taint.constant_keys import constant_key
from ddpify.understanding.taint.locations import Location, Locations
from ddpify.understanding.taint.sanitizers import gathering_functions
from ddpify.understanding.taint.sources import LENGTH, SANITIZED
from ddpify.understanding.taint.taken_apart import made_once, positions, widths
from ddpify.understanding.values import (
    Class,
    Device,
    Instance,
    QualifiedName,
    Value,
    value,
)

_WORLD = "torch.distributed.group.WORLD"


@record
class Dependency:
    """Something that an expression's value is made from: a slot, or a label of its own."""

    location: Location | None = None
    label: str = ""
    pure: bool = True
    node: cst.CSTNode | None = None
    given: tuple[Dependency, ...] | None = None  # a call's arguments: the slot is its result
    key: str | None = None  # of what the slot holds, the entry under this key alone
    reduced: bool = False  # a collective gets it, and gives what is the same on all ranks
    call: cst.Call | None = None  # that gives the result of which an element is taken


class Dependencies:
    """What each expression of a project depends on."""

    def __init__(
        self, facts: Facts, structures: dict[ModuleFile, Structure], locations: Locations
    ) -> None:
        self.facts = facts
        self.structures = structures
        self.locations = locations
        self.widths = widths(structures.values())
        self._known: dict[cst.CSTNode, list[Dependency]] = {}
        self._made_once: dict[ModuleFile, dict[Location, cst.Call]] = {}
        self._counts: set[Location] = set()
        self._uncleaned: Callable[[list[Dependency]], None] | None = None

    def of(self, node: cst.BaseExpression, module: ModuleFile) -> list[Dependency]:
        """What an expression's value is made from."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = list(self._depend(node, module, True))
            if self._uncleaned is not None:
                self._uncleaned(known)
        return known

    def leave_uncleaned(self, replaces: Callable[[list[Dependency]], None]) -> None:
        """Put in the place of names, where no collective has got them yet, what they are set to."""
        self._uncleaned = replaces
        for known in list(self._known.values()):
            replaces(known)

    def count_gpus(self, counts: set[Location]) -> None:
        """Know what numbers GPUs: ``rank % count`` is a rank in its node, also by a name."""
        self._counts = counts
        for module, structure in self.structures.items() if counts else ():
            for node in structure.all(cst.BinaryOperation):
                if self._is_local_rank(node, module):
                    for above in (node, *structure.up(node)):
                        if above in self._known:
                            assert isinstance(above, cst.BaseExpression)
                            self._known[above][:] = self._depend(above, module, True)

    def locations_of(self, node: cst.BaseExpression, module: ModuleFile) -> set[Location]:
        """The slots that an expression reads."""
        return {one.location for one in self.of(node, module) if one.location is not None}

    def apart(self, node: cst.Subscript, module: ModuleFile) -> list[list[Dependency]] | None:
        """What ``made[2]`` or ``made[1:3]`` depends on, each element by itself.

        None where ``made`` is not what the project's functions return as a display of one length.
        """
        call = self._call_behind(node.value, module)
        functions = [one.node for one in called(self.facts, call)] if call is not None else []
        sizes = {self.widths.get(one) for one in functions}
        width = sizes.pop() if len(sizes) == 1 else None
        taken = positions(node, width) if width is not None else None
        if call is None or taken is None:
            return None
        given = tuple(d for a in call.args for d in self._depend(a.value, module, False))
        return [
            [
                Dependency(("result", one, at), node=node, given=given, call=call)
                for one in functions
            ]
            for at in taken
        ]

    def _call_behind(self, node: cst.BaseExpression, module: ModuleFile) -> cst.Call | None:
        """A call, also by the name that is set once, to what it gives."""
        if not isinstance(node, cst.Name) or not self.widths:
            return node if isinstance(node, cst.Call) else None
        known = self._made_once.get(module)
        if known is None:
            known = made_once(self.structures[module], self.locations, module)
            self._made_once[module] = known
        return known.get(self.locations.of_name(node, module)[0])

    def _depend(self, node: cst.CSTNode, module: ModuleFile, pure: bool) -> Iterator[Dependency]:
        if isinstance(node, cst.Name):
            yield from self._name(node, module, pure)
        elif isinstance(node, cst.Attribute):
            yield from self._attribute(node, module, pure)
        elif isinstance(node, cst.Call):
            yield from self._call(node, module, pure)
        elif isinstance(node, (cst.Lambda, cst.FunctionDef)) or _is_alike(node):
            return
        elif isinstance(node, cst.FormattedString):
            for child in children(node):
                yield from self._depend(child, module, False)
        elif _asks_for_ranks(node):
            made = (one for child in children(node) for one in self._depend(child, module, False))
            yield from (one for one in made if one.label not in sources.ANY_RANK)
        elif isinstance(node, cst.Subscript):
            yield from self._subscript(node, module, pure)
        elif self._is_local_rank(node, module):
            yield Dependency(label=sources.LOCAL_RANK, pure=pure, node=node)
        else:
            for child in children(node):
                yield from self._depend(child, module, pure)

    def _is_local_rank(self, node: cst.CSTNode, module: ModuleFile) -> bool:
        """``rank % torch.cuda.device_count()``."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
            return False
        return self.counts_gpus(node.right, module)

    def counts_gpus(self, node: cst.BaseExpression, module: ModuleFile) -> bool:
        """Whether an expression is how many GPUs a node has, and nothing made of it."""
        return any(
            one.node is node and (one.label == sources.DEVICES or one.location in self._counts)
            for one in self.of(node, module)
        )

    def _name(self, node: cst.Name, module: ModuleFile, pure: bool) -> Iterator[Dependency]:
        held = self.facts.values.get(node)
        if (
            held is not None
            and held.atoms
            and all(isinstance(a, QualifiedName) for a in held.atoms)
        ):
            yield from _of_library(held, node)
            return
        yield Dependency(self.locations.of_name(node, module)[0], pure=pure, node=node)

    def _attribute(
        self, node: cst.Attribute, module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        held = self.facts.values.get(node)
        if (
            held is not None
            and held.atoms
            and all(isinstance(a, QualifiedName) for a in held.atoms)
        ):
            yield from _of_library(held, node)
            return
        for location in self.locations.of_attribute(node, module):
            yield Dependency(location, pure=pure, node=node)
        for function in read_as(self.facts, node):
            yield Dependency(("result", function.node), pure=pure, node=node, given=())
        if node.attr.value == "local_rank" and self._local_rank_is_an_option:
            yield Dependency(label=sources.LOCAL_RANK, node=node)
        if node.attr.value not in sources.SHAPE_LIKE:
            number = node.attr.value == "index" and self._is_device(node.value)
            yield from self._depend(node.value, module, pure and number)

    def _is_device(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a `torch.device`, whose index tells the number that it got."""
        held = self.facts.values.get(node, value()).atoms
        return bool(held) and all(isinstance(one, Device) for one in held)

    def _may_gather(self, function: cst.BaseExpression) -> bool:
        """Whether a call gathers with a gradient, or is of an object that is not seen and may."""
        if not self._gathering:
            return False
        held = self.facts.values.get(function, value())
        unseen = isinstance(function, cst.Name) and not held.atoms
        return (
            unseen
            or any(map(self._holds_gathering, held.atoms))
            or sources.name_of(function).removeprefix("self.") in self._gathering
        )

    def _holds_gathering(self, atom: object) -> bool:
        """Whether this wraps a model of a class that gathers, or of which nothing is known."""
        if not isinstance(atom, Instance) or not is_wrapper(atom):
            return False
        models = atom.arguments.get("module", value()).atoms
        classes = [
            a.type.node for a in models if isinstance(a, Instance) and isinstance(a.type, Class)
        ]
        return not models or any(
            isinstance(one, (cst.Name, cst.Attribute)) and sources.name_of(one) in self._gathering
            for node in classes
            for one in walk(node)
        )

    @cached_property
    def _gathering(self) -> set[str]:
        return gathering_functions(self.structures)

    @cached_property
    def _local_rank_is_an_option(self) -> bool:
        """Whether the scripts take ``--local_rank`` from torch.distributed.launch."""
        for structure in self.structures.values():
            for call in structure.all(cst.Call):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                    given = [self.facts.values.get(a.value, value()) for a in call.args]
                    if sources.declares_local_rank(given):
                        return True
        return False

    def _subscript(
        self, node: cst.Subscript, module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        if "os.environ" in library_names(self.facts.values.get(node.value)):
            for element in node.slice:
                if isinstance(element.slice, cst.Index):
                    key = self.facts.values.get(element.slice.value, value())
                    for label in sources.environment_labels(key):
                        yield Dependency(label=label)
            return
        apart = self.apart(node, module)
        if apart is not None:
            yield from (replace(one, pure=pure) for element in apart for one in element)
            return
        entry = constant_key(node)
        for child in children(node):
            for one in self._depend(child, module, pure):
                yield replace(one, key=entry) if one.node is node.value else one

    def _call(self, node: cst.Call, module: ModuleFile, pure: bool) -> Iterator[Dependency]:
        if any(map(is_wrapper, self.facts.values.get(node.func, value()).atoms)):
            yield Dependency(("batches", node), node=node)  # as what next() gives
        functions = list(called(self.facts, node))
        if functions:
            given = tuple(self._given(node, module))
            for function in functions:
                yield Dependency(("result", function.node), pure=pure, node=node, given=given)
            return
        yield from self._asked_by_name(node, module, pure)
        names = list(library_names(self.facts.values.get(node.func)))
        if BROADCAST in names:  # rank 0's, whatever it is made of
            yield Dependency(label=SANITIZED, node=node)
            return
        labels = list(self._labels(node, names))
        yield from (Dependency(label=label, node=node) for label in labels)
        yield from self._length(node, names)
        if "builtins.next" in names or _takes_next(node):
            yield Dependency(("batches", node), node=node)  # who asks about ranks knows its label
        if any(sources.is_silent(name) for name in names) or self._opens_for_writing(node, names):
            return
        through = self._through(node, names, module, pure)
        if SANITIZED in labels:
            yield from (replace(one, reduced=True) for one in through)
        else:
            yield from through

    def _given(self, node: cst.Call, module: ModuleFile) -> Iterator[Dependency]:
        """What a call's arguments are made from, and those that ``functools.partial`` has kept."""
        for argument in node.args:
            yield from self._depend(argument.value, module, False)
        for one in partials(self.facts, node):
            for kept in one.site.args[1:] if isinstance(one.site, cst.Call) else ():
                yield from self._depend(kept.value, one.module, False)

    def _labels(self, node: cst.Call, names: list[str]) -> Iterator[str]:
        """What the result of a library call is labelled with, whatever it gets."""
        arguments = [self.facts.values.get(a.value, value()) for a in node.args]
        own_group = self._asks_a_group(node, names)
        if self._may_gather(node.func) or self._is_metric(node):
            yield SANITIZED
        for name in names:
            for label in sources.call_labels(name, arguments):
                yield sources.of_group(label) if own_group else label

    def _asked_by_name(
        self, node: cst.Call, module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        """``getattr(x, "name")``."""
        if sources.name_of(node.func) != "getattr" or len(node.args) < 2:
            return
        name = self.facts.values.get(node.args[1].value, value()).constant()
        if isinstance(name, str) and name.isidentifier():
            read = cst.Attribute(node.args[0].value, cst.Name(name))
            for location in self.locations.of_attribute(read, module):
                yield Dependency(location, pure=pure, node=node)

    def _through(
        self, node: cst.Call, names: list[str], module: ModuleFile, pure: bool
    ) -> Iterator[Dependency]:
        """What passes from arguments and receiver to the result of a library call."""
        method = isinstance(node.func, cst.Attribute) and not names
        if method:
            assert isinstance(node.func, cst.Attribute)
            if node.func.attr.value in sources.SHAPE_LIKE:
                return
            keeps = pure and node.func.attr.value in sources.KEEPING
            pure, entry = False, constant_key(node)
            for one in self._depend(node.func.value, module, keeps):
                yield replace(one, key=entry) if one.node is node.func.value else one
        else:
            pure = pure and bool(names) and all(sources.is_pure(name) for name in names)
            if self._makes_project_object(node):
                pure = False
        if node in self.facts.device_moves:
            return  # where a value lies is no part of it
        arguments = _iterated(node, names)
        if any(map(is_wrapper, self.facts.values.get(node, value()).atoms)):
            arguments = [a for a in arguments if a.keyword is None or a.keyword.value == "module"]
        for argument in arguments:
            yield from self._depend(argument.value, module, pure)

    def _asks_a_group(self, node: cst.Call, names: list[str]) -> bool:
        """``get_rank(group)`` of a group that may not have all ranks."""
        if "torch.distributed.get_rank" not in names:
            return False
        given = given_as(node, "group", 0)
        held = self.facts.values.get(given.value, value()) if given is not None else None
        if held is None or held.constant() is None:
            return False
        return _WORLD not in library_names(held)

    def _opens_for_writing(self, node: cst.Call, names: list[str]) -> bool:
        """``open(path, "w")``: nothing that is read comes from its path."""
        mode = given_as(node, "mode", 1) if names == ["builtins.open"] else None
        known = self.facts.values.get(mode.value, value()).constant() if mode is not None else None
        return isinstance(known, str) and not set("r+") & set(known)

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


def _of_library(held: Value, node: cst.CSTNode) -> Iterator[Dependency]:
    """What a library's own name brings: its version is known apart."""
    for label in sources.library_labels(held):
        yield Dependency(label=label, node=node)


def _is_alike(node: cst.CSTNode) -> bool:
    """Whether a comparison has the same answer on all ranks, whatever is compared."""
    return isinstance(node, cst.Comparison) and (
        sources.asks_for_identity(node) or sources.asks_for_an_entry(node)
    )


def _takes_next(node: cst.Call) -> bool:
    """``batches.next()``, ``batches.__next__()``."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in ("next", "__next__")


def _asks_for_ranks(node: cst.CSTNode) -> bool:
    """``rank != -1`` tells nothing of the rank; ``labels != -1`` is another one on each."""
    return isinstance(node, cst.Comparison) and sources.asks_whether_distributed(node)


def _iterated(node: cst.Call, names: list[str]) -> list[cst.Arg]:
    """The arguments that a call's result is made of: a progress bar gives what it goes through.

    Where a tensor lies is no part of its value.
    """
    if not names or any(name not in BARS for name in names):
        places = [given_as(node, "map_location", 1 if "torch.load" in names else None)]
        if any(name.startswith("torch.") and name != "torch.device" for name in names):
            places.append(given_as(node, "device"))
        return [one for one in node.args if one not in places]
    shown = {BARS[name] for name in names}
    return [a for a in node.args if a.keyword is None or a.keyword.value in shown][:1]
