"""What a script shares out among ranks, and where the parts go."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst

from ddpify.lint.scripts.hand_batches import own_calls, own_loops
from ddpify.lint.scripts.left_out import is_left_out
from ddpify.lint.scripts.rank_numbers import is_numbered, numbered
from ddpify.lint.scripts.script_kinds import DISTRIBUTED, MAY_ASK, OTHER, SINGLE
from ddpify.lint.scripts.told import is_told_otherwise
from ddpify.lint.scripts.understood import Understood
from ddpify.lint.scripts.unread import unread_arguments
from ddpify.lint.scripts.unseen_batches import is_unseen, unseen_loops
from ddpify.lint.scripts.unseen_steps import note_unseen_steps
from ddpify.source import Source
from ddpify.understanding.libraries.distributed import (
    DDP,
    FSDP,
    FULLY_SHARD,
    INIT_GROUP,
    SAMPLER,
    splits,
)
from ddpify.understanding.libraries.object_kinds import BARS, is_loader
from ddpify.understanding.libraries.runtime_names import SHARDED
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import argument, code_of, is_main_guard
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, LOCAL
from ddpify.understanding.taint.unordered import Ordering
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Const,
    Data,
    Instance,
    Value,
    deep_atoms,
    value,
)

_NONE = value(Const(None))
_PASSING = frozenset({*BARS, "builtins.enumerate", "builtins.zip"})
_STARTS = (INIT_GROUP, DDP, FSDP, FULLY_SHARD, SAMPLER)


class Reading(Understood):
    """A file that is understood, with what it shares out, and where parts of that go."""

    def __init__(self, source: Source, folder: Path, **options: Any) -> None:
        """Understand a file; what packages train in a distributed one counts as its training."""
        super().__init__(source, folder, **options)
        if self.kind == DISTRIBUTED:
            note_unseen_steps(self)

    # ------------------------------------------------------------------ what kind of script
    @cached_property
    def kind(self) -> str:
        """ "distributed", "single" (trains in one process) or "other"."""
        if self.has_runtime:
            return DISTRIBUTED
        starts = [name for name in _STARTS if self._is_called(name)]
        if starts == [SAMPLER] and not any(map(splits, self._samplers)):
            starts = []
        if starts and not (starts == [SAMPLER] and self.is_whole_program):
            return DISTRIBUTED
        trains = self._trains or self.starts_training
        steps = self.facts.optimizers or self.facts.gradients.stepped
        return SINGLE if trains and steps else OTHER

    def _is_called(self, name: str) -> bool:
        """Whether the run gets to a call, whatever other scripts tell the functions around it."""
        places = self.facts.library_calls.get(name, {})
        return any(
            one.module not in self.structures or not is_told_otherwise(self, one.node)
            for one in places.values()
        )

    @property
    def _samplers(self) -> list[Instance]:
        return [
            one for call in self.calls(SAMPLER, everywhere=True) for one in self.instances(call)
        ]

    @property
    def starts_training(self) -> bool:
        """Whether a training runs when the file does, also in functions of other files.

        What a file's guarded part does with its functions is not always seen. A package may call
        ``backward()``; a model is in a wrapper to be trained.
        """
        return bool(self.facts.gradients.reached_backwards) or (
            self.is_whole_program and (self._trains or bool(self.wraps))
        )

    @cached_property
    def _trains(self) -> bool:
        return any(site.module is self.module for site, _ in self.facts.backwards.values())

    @property
    def has_runtime(self) -> bool:
        """Whether it is distributed by ddpify's own runtime."""
        return self.choices.stated

    @property
    def is_whole_program(self) -> bool:
        """Whether the file is run, not imported: it then joins no group where it calls nothing."""
        tests = (one.test for one in self.structure.all(cst.If))
        return any(is_main_guard(test) for test in tests)

    @cached_property
    def updates(self) -> bool:
        """Whether anything in sight may step an optimizer: gradients can be there to look at."""
        steps = self.method_calls("step", everywhere=True)
        return bool(self.facts.optimizers) or any(True for _ in steps)

    # ------------------------------------------------------------------ flow of labels
    @cached_property
    def flow(self) -> Flow:
        """Labels of names and results; "local" starts at the batches of sharded loaders."""
        made = Flow(self.facts, self.structures)
        self.__dict__["flow"] = made  # the questions below ask for it
        sources: dict[cst.CSTNode, set[str]] = {}
        for edge in made.edges:
            edge.adds = edge.adds and self._adds_over_batches(edge)
            if edge.value is not None and self.takes_batches(edge):
                sources[edge.value] = {LOCAL}
        for call in (*self._taken_batches(), *self._own_calls):
            made.begin(("batches", call), LOCAL)
        made.solve(sources)
        return made

    def _taken_batches(self) -> Iterator[cst.Call]:
        """The calls that take one batch of a loader that is shared out: ``next(batches)``."""
        methods = self.method_calls("next", "__next__", everywhere=True)
        for call in (*self.calls("builtins.next", everywhere=True), *methods):
            held = [one for one in self.value(call).atoms if isinstance(one, Data)]
            loaders = {loader for one in held for loader in one.loaders}
            if not self.has_runtime and any(
                self.gives_parts(one) and (self.strict or not self._may_stay_replicated(one))
                for one in loaders
            ):
                yield call

    @cached_property
    def _own_calls(self) -> list[cst.Call]:
        return [] if self.has_runtime else own_calls(self)

    @cached_property
    def _own_loops(self) -> set[cst.CSTNode]:
        return own_loops(self, [*self._own_calls, *self._taken_batches()])

    @cached_property
    def batch_loops(self) -> set[cst.CSTNode]:
        """The loops whose rounds give a rank its own part of the data."""
        return {
            loop
            for structure in self.structures.values()
            for loop in structure.all(cst.For, cst.CompFor)
            if not self.has_runtime and self._goes_through_shards(loop.iter)
        }

    @cached_property
    def _unseen_loops(self) -> set[cst.For]:
        return set() if self.has_runtime else {*unseen_loops(self, self.flow)}

    def takes_batches(self, edge: FlowEdge) -> bool:
        """Whether a loop over batches gives them to this target: not what is zipped with them."""
        if edge.value is None:
            return False
        if edge.node in self._unseen_loops and is_unseen(self, edge.value):
            return True
        return edge.node in self.batch_loops and self._goes_through_shards(edge.value)

    def _adds_over_batches(self, edge: FlowEdge) -> bool:
        """Whether ``+=`` or ``append`` collects from one batch to the next."""
        if any(location[0] != "name" for location in edge.targets):
            return True  # an attribute outlives the call
        structure = self.structure_of(edge.node)
        over = [
            loop
            for loop in structure.loops(edge.node)
            if loop in self._own_loops or (isinstance(loop, cst.For) and self.loaders_in(loop.iter))
        ]
        scopes = [location[1] for location in edge.targets if isinstance(location[1], cst.CSTNode)]
        return any(not any(_is_at_or_in(structure, one, loop) for one in scopes) for loop in over)

    @cached_property
    def ordering(self) -> Ordering:
        """Collections whose order differs between processes."""
        return Ordering(self.facts, self.structures, self.flow)

    def labels(self, node: cst.BaseExpression) -> Set[str]:
        """The labels of an expression (see ``understanding.labels.sources``)."""
        return self.flow.of(node, self.owners.get(node, self.module))

    @cached_property
    def loss_locations(self) -> set[Location]:
        """What the receivers of ``backward()`` read."""
        found: set[Location] = set()
        for node in self.facts.backwards:
            if isinstance(node, cst.Call) and node in self.owners:
                part = node.func.value if isinstance(node.func, cst.Attribute) else node
                found |= self.flow.locations(part, self.owners[node])
        return found

    def _goes_through_shards(self, node: cst.BaseExpression) -> bool:
        """Whether a loop over an expression gives batches: ``range(len(loader))`` gives none."""
        if isinstance(node, cst.Call) and "builtins.range" in self.names(node.func):
            return False
        return any(
            self.gives_parts(one) and (self.strict or not self._may_stay_replicated(one))
            for one in self.loaders_in(node)
        )

    def _may_stay_replicated(self, loader: Instance) -> bool:
        """Whether a condition that asks nothing about the launch decides if there is a sampler."""
        held = loader.arguments.get("sampler", UNKNOWN).atoms
        made = [one for one in held if isinstance(one, Instance) and isinstance(one.site, cst.Call)]
        if any(self._is_never_asked_for(one) for one in made if splits(one)):
            return True
        if not any(isinstance(one, Const) and one.value is None for one in held):
            return False
        outside = {one.statement for one in self.structure_of(loader.site).guards(loader.site)}
        tests = [
            guard.test
            for one in made
            for guard in self.structure_of(one.site).guards(one.site)
            if guard.statement not in outside
        ]
        return bool(tests) and not any(map(self._may_ask, tests))

    def _is_never_asked_for(self, sampler: Instance) -> bool:
        """Whether a sampler is made where an option asks for it that no command gives, and that
        does not ask for wrappers as well.
        """
        guards = self.structure_of(sampler.site).guards(sampler.site)
        asked = [
            one.test for one in guards if one.positive and is_left_out(self, self.flow, one.test)
        ]
        places = [wrap.site.node for wrap in self.wraps] if asked else []
        wrapping = {
            one.attr.value
            for place in places
            for guard in self.structure_of(place).guards(place)
            for one in walk(guard.test)
            if isinstance(one, cst.Attribute)
        }
        return any(isinstance(x, cst.Attribute) and x.attr.value not in wrapping for x in asked)

    def _may_ask(self, test: cst.BaseExpression) -> bool:
        """Whether a test, or what its names are set to, has a word about the launch."""
        locations = self.flow.locations(test, self.owners.get(test, self.module))
        made = [edge.value for edge in self.flow.edges_into(locations) if edge.value is not None]
        return any(MAY_ASK.search(code_of(one)) for one in (test, *made))

    # ------------------------------------------------------------------ loaders
    def loaders_in(self, node: cst.CSTNode) -> list[Instance]:
        """The loaders that an expression such as ``enumerate(tqdm(loader))`` goes through."""
        found: dict[Instance, None] = {}
        todo, seen = [node], set[cst.CSTNode]()
        while todo:
            for one in walk(todo.pop()):
                for atom in self.value(one).atoms:
                    if isinstance(atom, Instance) and is_loader(atom):
                        found[atom] = None
                    elif isinstance(atom, Instance) and atom.site not in seen:
                        seen.add(atom.site)
                        todo += self._passed_on(atom)
                        found |= dict.fromkeys(self._handed_on(atom))
        return list(found)

    def _handed_on(self, made: Instance) -> list[Instance]:
        """The loaders that an object of the project gets, which is gone through itself.

        It may take them in turn, from a list or a dictionary.
        """
        if not isinstance(made.type, Class) or "__iter__" not in made.type.scope.names:
            return []
        call = made.site
        given = [self.value(one.value) for one in call.args] if isinstance(call, cst.Call) else []
        held = (one for each in given for one in deep_atoms(each))
        return [one for one in held if isinstance(one, Instance) and is_loader(one)]

    def _passed_on(self, made: Instance) -> list[cst.BaseExpression]:
        """What a progress bar, or ``enumerate()`` by a name, goes through."""
        call = made.site
        if not isinstance(call, cst.Call) or not self.names(call.func) & _PASSING:
            return []
        return [one.value for one in call.args if one.keyword is None]

    def is_sharded(self, loader: Instance) -> bool:
        """Whether a sampler surely gives each rank its own part of the data."""
        if loader in self.facts.runtime.shared:
            return self.facts.runtime.shared[loader] == SHARDED
        return any(
            any(map(splits, _within(self._given(loader, name, UNKNOWN))))
            for name in ("sampler", "batch_sampler")
        )

    def _given(self, loader: Instance, name: str, default: Value) -> Value:
        """An argument of a loader, without what is made where no call leads to:
        ``build(training=True)``, for the sampler under ``if not training:``.
        """
        held = loader.arguments.get(name, default)
        if len(held.atoms) < 2:
            return held
        return value(*(one for one in held.atoms if not self._is_never_made(one)))

    def _is_never_made(self, one: object) -> bool:
        if not isinstance(one, Instance) or one.site not in self.owners:
            return False
        for guard in self.structure_of(one.site).guards(one.site):
            answer = self.value(guard.test).constant()
            if isinstance(answer, bool) and answer is not guard.positive:
                return True
        return False

    def gives_parts(self, loader: Instance) -> bool:
        """Whether each rank has its own part, also by ``DataLoader(parts.use(rank))``: a call gives
        the data set by the rank's number.
        """
        if self.is_sharded(loader):
            return True
        if not isinstance(loader.site, cst.Call) or loader.site not in self.owners:
            return False
        given = argument(loader.site, "dataset", 0)
        if given is None or any(one in loader.arguments for one in ("sampler", "batch_sampler")):
            return False
        module = self.owners[loader.site]
        locations = self.flow.locations(given.value, module)
        made = [given.value, *(edge.value for edge in self.flow.edges_into(locations))]
        return any(
            isinstance(one, cst.Call)
            and any(
                self._is_rank(argument.value, self.owners.get(one, module))
                and argument.value not in self._unread(one)
                for argument in one.args
            )
            for one in made
        )

    def _is_rank(self, node: cst.BaseExpression, module: ModuleFile) -> bool:
        """Whether an expression is the rank, not an answer about it."""
        if not isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
            return False
        edges = self.flow.edges_into(self.flow.locations(node, module))
        answers = (cst.Comparison, cst.UnaryOperation, cst.BooleanOperation, cst.IfExp)
        return bool(self.flow.of(node, module) & ANY_RANK) and not any(
            isinstance(edge.value, answers) for edge in edges
        )

    def may_be_sharded(self, loader: Instance) -> bool:
        """Whether a loader's sampler or data set may depend on the rank, as far as is seen."""
        call = loader.site
        if self.gives_parts(loader) or not isinstance(call, cst.Call):
            return True
        if not self._are_options(call, loader.arguments.get("**")):
            return True
        for name in ("sampler", "batch_sampler"):
            held = self._given(loader, name, _NONE)
            if not _surely_none(held) and not self._plain_sampler(held):
                return True
        known = loader.arguments.get("dataset", UNKNOWN)
        shuffles = loader.arguments.get("shuffle", UNKNOWN).constant() is True
        if not known and not shuffles:
            return True  # a data set that gives its samples in turn may split them itself
        if not _surely_none(self._given(loader, "sampler", _NONE)):
            chosen = argument(call, "sampler", 3)
            if chosen is not None and self.has_rank_number(chosen.value):
                return True
        given = argument(call, "dataset", 0)
        return given is not None and self._may_be_part(given.value, known)

    def _may_be_part(self, given: cst.BaseExpression, known: Value) -> bool:
        """Whether a rank's number may decide about a data set: where a class of the project has
        it, its own number, in an argument that this class reads.
        """
        made = [one for one in known.atoms if isinstance(one, Instance)]
        calls = [one.site for one in made if isinstance(one.type, Class)]
        if not calls or len(calls) < len(known.atoms):
            return self.has_rank_number(given)
        return any(
            self.has_own_number(one.value)
            for call in calls
            if isinstance(call, cst.Call)
            for one in call.args
            if one.value not in self._unread(call)
        )

    def _unread(self, call: cst.Call) -> set[cst.BaseExpression]:
        """The arguments of a call of which no class that it makes an object of makes anything."""
        made = [one for one in self.instances(call) if one.site is call]
        kept = [{*unread_arguments(self, one)} for one in made]
        return set.intersection(*kept) if kept else set()

    def has_rank_number(self, node: cst.BaseExpression) -> bool:
        """Whether a rank's number, or how many there are, went into a value: not an answer."""
        made = self.flow.made_of.of(node, self.owners[node])
        return is_numbered(made, self._numbered)

    def has_own_number(self, node: cst.BaseExpression) -> bool:
        """Whether a rank's own number went into a value: how many there are is the same for all."""
        made = self.flow.made_of.of(node, self.owners[node])
        return is_numbered(made, self._own_numbered, ANY_RANK)

    @cached_property
    def _numbered(self) -> set[Location]:
        return numbered(self.flow)

    @cached_property
    def _own_numbered(self) -> set[Location]:
        return numbered(self.flow, ANY_RANK)

    def _are_options(self, call: cst.Call, given: Value | None) -> bool:
        """Whether no sampler is in what a call is given as ``**options``: all entries are seen, or
        they come out of a configuration, which holds no objects.
        """
        if given is None:
            return True
        starred = (one.value for one in call.args if one.star == "**")
        read = all(isinstance(one, (cst.Attribute, cst.Subscript)) for one in starred)
        for one in given.atoms:
            if not isinstance(one, Instance):
                if not read:
                    return False
                continue
            entries = one.attributes if one.kind == "dict" else None
            if entries is None or "*" in entries or entries.keys() & {"sampler", "batch_sampler"}:
                return False
        return bool(given.atoms) or read

    def _plain_sampler(self, held: Value) -> bool:
        atoms = [a for a in held.atoms if not (isinstance(a, Const) and a.value is None)]
        return bool(atoms) and all(
            isinstance(a, Instance)
            and isinstance(a.type, str)
            and a.type.startswith("torch.utils.data.")
            and "Distributed" not in a.type
            and not any(isinstance(inner.type, Class) for inner in _inside(a))
            for a in atoms
        )


def _is_at_or_in(structure: Structure, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    return node is other or any(above is other for above in structure.up(node))


def _surely_none(held: Value) -> bool:
    return bool(held.atoms) and all(isinstance(a, Const) and a.value is None for a in held.atoms)


def _inside(batches: Instance) -> list[Instance]:
    """What a BatchSampler takes its samples from."""
    if not batches.type.endswith("BatchSampler"):  # type: ignore[union-attr]
        return []
    held = (atom for given in batches.arguments.values() for atom in given.atoms)
    return [atom for atom in held if isinstance(atom, Instance)]


def _within(held: Value, depth: int = 3) -> Iterator[object]:
    """The atoms of a value, and of what objects among them were made with."""
    for atom in held.atoms:
        yield atom
        if isinstance(atom, Instance) and depth:
            for inner in atom.arguments.values():
                yield from _within(inner, depth - 1)
