"""One script as it is understood: the shared facts, and questions about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import overload

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix
from ddpify.lint.scripts.kinds import DISTRIBUTED, MAY_ASK, OTHER, SINGLE
from ddpify.lint.scripts.positions import Positions
from ddpify.lint.scripts.projects import BoundedProject
from ddpify.records import record
from ddpify.source import Source
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Event, Facts, Site
from ddpify.understanding.interpretation import interpret
from ddpify.understanding.labels import origins
from ddpify.understanding.labels.callees import called, initialisers
from ddpify.understanding.labels.flow import Flow
from ddpify.understanding.labels.moves import Move
from ddpify.understanding.labels.ordering import Ordering
from ddpify.understanding.labels.origins import ANY_RANK, LOCAL
from ddpify.understanding.labels.slots import Slot
from ddpify.understanding.libraries import runtime_names
from ddpify.understanding.libraries.distributed import (
    COLLECTIVES,
    DDP,
    FSDP,
    FULLY_SHARD,
    SAMPLER,
    WRAPPERS,
    is_wrapper,
    splits,
)
from ddpify.understanding.libraries.kinds import BARS, is_loader
from ddpify.understanding.libraries.runtime_names import SHARDED, imports_runtime
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.requirements import declaring_file, minimum_torch
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import argument, code_of, is_main_guard
from ddpify.understanding.values import UNKNOWN, Class, Const, Instance, Value, value

ALL_COLLECTIVES = COLLECTIVES | set(WRAPPERS) | runtime_names.COLLECTIVES
_NONE = value(Const(None))
_PASSING = frozenset({*BARS, "builtins.enumerate", "builtins.zip"})
_STARTS = ("torch.distributed.init_process_group", DDP, FSDP, FULLY_SHARD, SAMPLER)


@record
class Wrap:
    """One place that wraps a model: the wrapper object, and what it may hold."""

    site: Site
    wrapper: Instance
    held: tuple[Instance, ...]

    @property
    def in_place(self) -> bool:
        """Whether the model stays the object that it was: ddpify's runtime wraps so."""
        return self.wrapper in self.held and not is_wrapper(self.wrapper)

    @property
    def call(self) -> cst.Call:
        """The call that wraps."""
        assert isinstance(self.site.node, cst.Call)
        return self.site.node


class Owners:
    """The file of each node; few nodes are asked about, and most of those are the file's own."""

    def __init__(self, structures: dict[ModuleFile, Structure]) -> None:
        self._structures = structures  # that of the file itself first

    @overload
    def get(self, node: cst.CSTNode) -> ModuleFile | None: ...
    @overload
    def get(self, node: cst.CSTNode, default: ModuleFile) -> ModuleFile: ...
    def get(self, node: cst.CSTNode, default: ModuleFile | None = None) -> ModuleFile | None:
        """The file of a node, or the default for one that is in no file."""
        for file, structure in self._structures.items():
            if node in structure.order:
                return file
        return default

    def __getitem__(self, node: cst.CSTNode) -> ModuleFile:
        file = self.get(node)
        if file is None:
            raise KeyError(node)
        return file

    def __contains__(self, node: cst.CSTNode) -> bool:
        return self.get(node) is not None


class Reading:
    """A Python file, understood together with the local files that it imports."""

    def __init__(
        self,
        source: Source,
        folder: Path,
        *,
        strict: bool = False,
        most_files: int = 60,
        follow: bool = True,
    ) -> None:
        """Understand a file as a part of the project in ``folder``.

        Raises:
            RecursionError: Calls or imports go too deep.
        """
        self.source = source
        self.strict = strict
        self.project = BoundedProject(source, folder, most_files)
        self.module = self.project.entry
        self.choices = Choices(stated=imports_runtime(source.text))
        self.facts: Facts = interpret(self.project, self.choices, follow=follow)
        self.positions = Positions(self.module)

    # ------------------------------------------------------------------ what kind of script
    @cached_property
    def kind(self) -> str:
        """ "distributed", "single" (trains in one process) or "other"."""
        if self.has_runtime:
            return DISTRIBUTED
        starts = [name for name in _STARTS if name in self.facts.library_calls]
        if starts == [SAMPLER] and not any(map(splits, self._samplers)):
            starts = []
        if starts and not (starts == [SAMPLER] and self.is_whole_program):
            return DISTRIBUTED
        trains = self._trains or self.starts_training
        steps = self.facts.optimizers or self.facts.stepped
        return SINGLE if trains and steps else OTHER

    @property
    def _samplers(self) -> list[Instance]:
        return [
            one for call in self.calls(SAMPLER, everywhere=True) for one in self.instances(call)
        ]

    @property
    def starts_training(self) -> bool:
        """Whether a training runs when the file does, also in functions of other files.

        What a file's guarded part does with its functions is not always seen.
        """
        return bool(self.facts.reached_backwards) or (self.is_whole_program and self._trains)

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

    # ------------------------------------------------------------------ requirements
    @cached_property
    def requirements(self) -> Path | None:
        """The file that says which versions of torch will do."""
        return declaring_file(self.module.path)

    def requires_torch(self, major: int, minor: int) -> bool:
        """Whether the project surely runs with this version of torch or a later one."""
        declared = self.requirements
        return declared is not None and minimum_torch(declared) >= (major, minor)

    # ------------------------------------------------------------------ structure
    @cached_property
    def structures(self) -> dict[ModuleFile, Structure]:
        """The structure of each of the project's files."""
        return {file: file.structure for file in self.project.files}

    @cached_property
    def structure(self) -> Structure:
        """The structure of the file itself."""
        return self.structures[self.module]

    @cached_property
    def owners(self) -> Owners:
        """The file of each node."""
        return Owners(self.structures)

    def structure_of(self, node: cst.CSTNode) -> Structure:
        """The structure of the file that a node is in."""
        return self.structures[self.owners.get(node, self.module)]

    # ------------------------------------------------------------------ values and calls
    def value(self, node: cst.CSTNode) -> Value:
        """What an expression may stand for; empty where unknown."""
        return self.facts.values.get(node, UNKNOWN)

    def names(self, node: cst.CSTNode) -> set[str]:
        """Qualified names of the library things that an expression may be."""
        return set(origins.library_names(self.facts.values.get(node)))

    def instances(self, node: cst.CSTNode) -> list[Instance]:
        """The objects that an expression may be."""
        return [a for a in self.value(node).atoms if isinstance(a, Instance)]

    def calls(self, *names: str, everywhere: bool = False) -> list[cst.Call]:
        """Calls of library functions by qualified name, in source order.

        A name that ends with a dot is a prefix. Only this file's, unless ``everywhere``.
        """
        found: dict[cst.Call, None] = {}
        for name, sites in self.facts.library_calls.items():
            if name in names or any(n.endswith(".") and name.startswith(n) for n in names):
                for site in sites.values():
                    if isinstance(site.node, cst.Call) and (
                        everywhere or site.module is self.module
                    ):
                        found[site.node] = None
        return sorted(found, key=lambda n: self.structure_of(n).order.get(n, 0))

    def uses(self, *names: str) -> bool:
        """Whether the project calls any of these library functions."""
        return bool(self.calls(*names, everywhere=True))

    def method_calls(self, *names: str, everywhere: bool = False) -> Iterator[cst.Call]:
        """Calls ``x.name(...)`` of any receiver, in source order."""
        for file, structure in self.structures.items():
            if not everywhere and file is not self.module:
                continue
            for call in structure.all(cst.Call):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value in names:
                    yield call

    # ------------------------------------------------------------------ flow of labels
    @cached_property
    def flow(self) -> Flow:
        """Labels of names and results; "local" starts at the batches of sharded loaders."""
        made = Flow(self.facts, self.structures)
        self.__dict__["flow"] = made  # the questions below ask for it
        sources = {loop: {LOCAL} for loop in self.batch_loops}
        for move in made.moves:
            move.adds = move.adds and self._adds_over_batches(move)
        made.solve(sources)
        return made

    @cached_property
    def batch_loops(self) -> set[cst.CSTNode]:
        """The loops whose rounds give a rank its own part of the data."""
        return {
            loop
            for structure in self.structures.values()
            for loop in structure.all(cst.For, cst.CompFor)
            if not self.has_runtime and self._goes_through_shards(loop.iter)
        }

    def _adds_over_batches(self, move: Move) -> bool:
        """Whether ``+=`` or ``append`` collects from one batch to the next."""
        if any(slot[0] != "name" for slot in move.targets):
            return True  # an attribute outlives the call
        structure = self.structure_of(move.node)
        over = [
            loop
            for loop in structure.loops(move.node)
            if isinstance(loop, cst.For) and self.loaders_in(loop.iter)
        ]
        scopes = [slot[1] for slot in move.targets if isinstance(slot[1], cst.CSTNode)]
        return any(not any(_is_at_or_in(structure, one, loop) for one in scopes) for loop in over)

    @cached_property
    def ordering(self) -> Ordering:
        """Collections whose order differs between processes."""
        return Ordering(self.facts, self.structures, self.flow)

    def labels(self, node: cst.BaseExpression) -> set[str]:
        """The labels of an expression (see ``understanding.labels.origins``)."""
        return self.flow.of(node, self.owners.get(node, self.module))

    @cached_property
    def loss_slots(self) -> set[Slot]:
        """What the receivers of ``backward()`` read."""
        found: set[Slot] = set()
        for node in self.facts.backwards:
            if isinstance(node, cst.Call) and node in self.owners:
                part = node.func.value if isinstance(node.func, cst.Attribute) else node
                found |= self.flow.slots(part, self.owners[node])
        return found

    def _goes_through_shards(self, node: cst.BaseExpression) -> bool:
        """Whether a loop over an expression gives batches: ``range(len(loader))`` gives none."""
        if isinstance(node, cst.Call) and "builtins.range" in self.names(node.func):
            return False
        return any(
            self.is_sharded(one) and (self.strict or not self._may_be_left_whole(one))
            for one in self.loaders_in(node)
        )

    def _may_be_left_whole(self, loader: Instance) -> bool:
        """Whether a condition that asks nothing about the launch decides if there is a sampler."""
        held = loader.arguments.get("sampler", UNKNOWN).atoms
        made = [one for one in held if isinstance(one, Instance) and isinstance(one.site, cst.Call)]
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

    def _may_ask(self, test: cst.BaseExpression) -> bool:
        """Whether a test, or what its names are set to, has a word about the launch."""
        slots = self.flow.slots(test, self.owners.get(test, self.module))
        made = [move.value for move in self.flow.moves_to(slots) if move.value is not None]
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
        return list(found)

    def _passed_on(self, made: Instance) -> list[cst.BaseExpression]:
        """What a progress bar, or ``enumerate()`` by a name, goes through."""
        call = made.site
        if not isinstance(call, cst.Call) or not self.names(call.func) & _PASSING:
            return []
        return [one.value for one in call.args if one.keyword is None]

    def is_sharded(self, loader: Instance) -> bool:
        """Whether a loader surely gives each rank its own part."""
        if loader in self.facts.shared:
            return self.facts.shared[loader] == SHARDED
        for name in ("sampler", "batch_sampler"):
            held = loader.arguments.get(name, UNKNOWN)
            if any(map(splits, _within(held))):
                return True
        return False

    def may_be_sharded(self, loader: Instance) -> bool:
        """Whether a loader's sampler or data set may depend on the rank, as far as is seen."""
        call = loader.site
        if self.is_sharded(loader) or not isinstance(call, cst.Call) or "**" in loader.arguments:
            return True
        for name in ("sampler", "batch_sampler"):
            held = loader.arguments.get(name, _NONE)
            if not _surely_none(held) and not self._plain_sampler(held):
                return True
        known = loader.arguments.get("dataset", UNKNOWN)
        if not known:
            return True
        apart = ANY_RANK | {origins.WORLD}
        chosen = [a for a in (argument(call, "dataset", 0), argument(call, "sampler", 3)) if a]
        return any(self.flow.origins(a.value, self.owners[call]) & apart for a in chosen)

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

    @cached_property
    def updates(self) -> bool:
        """Whether anything in sight may step an optimizer: gradients can be there to look at."""
        steps = self.method_calls("step", everywhere=True)
        return bool(self.facts.optimizers) or any(True for _ in steps)

    # ------------------------------------------------------------------ models
    @cached_property
    def wraps(self) -> list[Wrap]:
        """All places, in any file, that wrap a model in DDP or FSDP, or in place."""
        found = []
        for model in self.facts.models:
            if is_wrapper(model) and isinstance(model.site, cst.Call):
                held = list(model.arguments.get("module", UNKNOWN).atoms)
                inner = tuple(a for a in held if isinstance(a, Instance))
                found.append(Wrap(Site(model.site, model.module), model, inner))
        in_place = self.facts.wrapped.items()
        return found + [Wrap(site, model, (model,)) for model, site in in_place]

    @cached_property
    def wrapped(self) -> set[Instance]:
        """The wrapper objects."""
        return {wrap.wrapper for wrap in self.wraps}

    @cached_property
    def averages(self) -> bool:
        """Whether a wrapper averages gradients over the ranks."""
        return bool(self.wraps) or self.uses(FULLY_SHARD)

    def is_ddp(self, node: cst.CSTNode) -> bool:
        """Whether an expression surely is a DDP object."""
        atoms = self.value(node).atoms
        return bool(atoms) and all(isinstance(a, Instance) and a.type == DDP for a in atoms)

    def is_wrapped(self, node: cst.CSTNode) -> bool:
        """Whether an expression may be a DDP or FSDP object."""
        return any(is_wrapper(atom) for atom in self.value(node).atoms)

    def may_be_wrapped(self, node: cst.CSTNode) -> bool:
        """Whether an expression may be a model whose gradients a wrapper averages."""
        return any(atom in self.wrapped for atom in self.value(node).of(Instance))

    @property
    def has_fsdp(self) -> bool:
        """Whether any model is sharded."""
        return self.uses(FSDP, FULLY_SHARD, "torch.distributed.fsdp.") or any(
            wrap.wrapper.type == FSDP for wrap in self.wraps
        )

    def events(self, model: Instance, *kinds: str) -> list[Event]:
        """What happens to a model, in the order of the run."""
        return [e for e in self.facts.events.get(model, []) if not kinds or e.kind in kinds]

    # ------------------------------------------------------------------ what a block does
    def reached(self, node: cst.CSTNode, depth: int = 6) -> Iterator[cst.CSTNode]:
        """All nodes in a node, and in the project's functions that it calls."""
        seen: set[cst.CSTNode] = set()
        todo = [(node, depth)]
        while todo:
            one, left = todo.pop()
            for inner in walk(one):
                yield inner
                if not isinstance(inner, cst.Call) or left == 0:
                    continue
                functions = [*called(self.facts, inner), *initialisers(self.facts, inner)]
                for function in functions:
                    if function.node not in seen and function.module in self.structures:
                        seen.add(function.node)
                        todo.append((function.node, left - 1))

    def trains(self, node: cst.CSTNode) -> bool:
        """Whether a block reaches ``backward()``."""
        return any(one in self.facts.backwards for one in self.reached(node))

    def collectives(self, node: cst.CSTNode) -> list[tuple[str, cst.Call]]:
        """The collectives that a block runs, by name, also in the functions that it calls."""
        found: list[tuple[str, cst.Call]] = []
        for one in self.reached(node):
            if isinstance(one, cst.Call):
                names = self.names(one.func) & ALL_COLLECTIVES
                found += [(name, one) for name in sorted(names)]
        return found

    # ------------------------------------------------------------------ small help for rules
    def code(self, node: cst.CSTNode, most: int = 60) -> str:
        """The source of a node on one line, shortened."""
        text = " ".join(code_of(node).split())
        return text if len(text) <= most else text[: most - 3] + "..."

    def replace(
        self,
        node: cst.CSTNode,
        text: str,
        title: str,
        applicability: Applicability = Applicability.SAFE,
    ) -> Fix:
        """A fix that puts other code in the place of a node."""
        start, end = self.positions.offsets(node)
        return Fix(title, (Edit(start, end, text),), applicability)

    def arguments(self, call: cst.Call, *names: str) -> Iterable[cst.Arg]:
        """The keyword arguments of a call with these names."""
        return [a for a in call.args if a.keyword is not None and a.keyword.value in names]


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
