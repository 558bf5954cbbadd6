"""The state of a run on abstract values, and the questions about it.

What runs the code itself is :mod:`interpretation`; the code for each construct of the language and
for each library knows the run by this class alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import libcst as cst

from ddpify.understanding import size_uses, uses
from ddpify.understanding.choices import Choices
from ddpify.understanding.contexts import Context, Contexts, into_forward
from ddpify.understanding.facts import Demand, Effect, Facts, Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.frames import Frame
from ddpify.understanding.merged_calls import Ways
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import displayed
from ddpify.understanding.training_modes import Modes
from ddpify.understanding.values import (
    NO_ROWS,
    UNKNOWN,
    Atom,
    Class,
    Data,
    Function,
    Instance,
    Namespace,
    Scope,
    Value,
    deep_atoms,
    join,
    value,
)

_REDUCIBLE = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED)

_LITERALS = (cst.BaseNumber, cst.BaseString)


class RunState(ABC):
    """A run over a project, and what the code for each construct of the language asks of it."""

    def __init__(
        self, project: Project, choices: Choices | None = None, *, follow: bool = True
    ) -> None:
        self.project = project
        self.budget = project.budget
        self.follow = follow  # into the project's functions, where they are called
        self.choices = choices or Choices()
        self.facts = Facts()
        self.heap: dict[tuple[cst.CSTNode, tuple[cst.CSTNode, ...], object], Instance] = {}
        self.made_in: dict[Instance, frozenset[cst.CSTNode]] = {}
        self.scopes: dict[ModuleFile, Scope] = {}
        self.loop_ends: dict[object, dict[str, Value]] = {}
        self.batch_loops: set[object] = set()  # that were seen to take a batch in each round
        self.results: dict[object, Value] = {}
        self.previous: dict[object, Value] = {}
        self.recalled: set[object] = set()  # calls that took their previous result
        self.running: set[object] = set()
        self.ways = Ways()
        self.frames: list[Frame] = []
        self.no_grad = 0
        self.modes = Modes()
        self.criteria: set[tuple[Instance, bool]] = set()  # modules, and whether they are some
        self.training: bool | None = None  # the mode of the model in progress, where it is known
        self.all_replicated = 0  # inside of so many blocks where every rank holds all rows
        self.running_entry = False  # and not code that nothing calls
        self.trials = 0  # in progress
        self.tried: Function | None = None  # on a rank's rows
        self.tried_writes: list[tuple[Instance, str, Value | None]] = []  # and what was there
        self.collating = False  # whether a collate function puts samples together
        self.of_all_ranks: set[Instance] = set()  # lists that are made of gathered rows
        # Iterators over batches, with the loaders of these.
        self.over_loaders: dict[Instance, frozenset[Instance]] = {}
        self.taking_replicated = 0  # how many comprehensions in progress go through such batches
        self.rows_taken: list[Data] = []  # by loops over a batch's rows, the innermost last
        # The loaders that the current batch comes from, for each way of getting here.
        self.current_loaders: frozenset[frozenset[Instance]] = frozenset()
        self.current_replicated: frozenset[frozenset[Instance]] = (
            frozenset()
        )  # those that may be replicated
        # Whether this pass changes what it has read before: only then does the next one differ.
        self.reads_change = False
        # What objects hold: written since the last batch came; read when it was of an earlier one.
        self.written: set[tuple[object, str]] = set()
        self.carried: set[tuple[object, str]] = set()
        self.aged: dict[Instance, Instance] = {}  # collections, as a later round has them
        self.set_around: dict[tuple[object, str], Value] = {}  # parts that names of others got
        self.functions: dict[tuple[cst.CSTNode, Context], Function] = {}
        self.defined: set[Function] = set()  # those of them that this pass has come to
        self._contexts = Contexts()
        self.classes: dict[cst.CSTNode, Class] = {}
        self._namespaces: dict[ModuleFile, Namespace] = {}
        self.called: set[cst.CSTNode] = set()
        self.loaded_models: set[cst.CSTNode] = set()  # what takes a whole model out of a file
        # Functions that have some of their arguments, by the call that gives them.
        self.completed_in_part: dict[tuple[cst.CSTNode, Function], Function] = {}
        self.latest: dict[cst.CSTNode, Value] = {}

    def namespace(self, module: ModuleFile) -> Namespace:
        """A module as a value: the same one in every pass, so that values compare equal."""
        scope = self.module_scope(module)
        known = self._namespaces.setdefault(module, Namespace(module, scope))
        known.scope = scope
        return known

    def frames_forward(self) -> bool:
        """Whether code is in progress that treats each sample alone, as a model's forward does."""
        return self.collating or bool(self.frames and self.frames[-1].in_forward)

    # ------------------------------------------------------------------ state
    @property
    def frame(self) -> Frame:
        """The call in progress."""
        return self.frames[-1]

    @property
    def module(self) -> ModuleFile:
        """The file whose code runs."""
        return self.frame.module

    @contextmanager
    def running_in(self, frame: Frame) -> Iterator[None]:
        """Inside, this call is in progress; the steps that its own code takes are noted."""
        started = self.budget.used
        self.frames.append(frame)
        try:
            yield
        finally:
            self.frames.pop()
            steps = self.budget.used - started
            self.budget.note(frame.runs, steps - frame.inner_steps)
            if self.frames:
                self.frame.inner_steps += steps

    def site(self, node: cst.CSTNode) -> Site:
        """A node of the running file."""
        return Site(node, self.module)

    @property
    def call_path(self) -> tuple[Site, ...]:
        """The calls in progress, outermost first."""
        return tuple(frame.call for frame in self.frames if frame.call is not None)

    def instance(self, node: cst.CSTNode, module: ModuleFile, kind: Class | str) -> Instance:
        """The object made at a place, one for each way of the last few calls that lead there."""
        callers = self._contexts.last_calls(self.frames)
        # Classes may share their name; what a trial makes is not what the code itself makes.
        known = (kind if isinstance(kind, str) else kind.node, self.tried is not None)
        key = (node, callers, known)
        if key not in self.heap and self._contexts.are_too_many(node):
            key = (node, into_forward(self.frames), known)
        if key not in self.heap:
            maker = self.frames[-1].receiver if self.frames else None
            self.heap[key] = Instance(node, module, kind, maker=maker, calls=key[1])
            self.made_in[self.heap[key]] = frozenset(
                loop.node for frame in self.frames for loop in frame.loops if loop.taken
            )
        return self.heap[key]

    def function(self, node: cst.FunctionDef | cst.Lambda) -> Function:
        """The function made at a place, one for each way of the last few calls that lead there.

        Where it is made again on the same way, as in a loop, it stands for all that are made.
        """
        key = (node, self._contexts.last_calls(self.frames))
        if key not in self.functions and self._contexts.are_too_many(node):
            key = (node, into_forward(self.frames))
        scope = self.frame.scope
        made = self.functions.setdefault(key, Function(node, self.module, scope))
        again = made in self.defined
        if again and made.scope is not scope:
            scope.alike = (*made.scope.alike, made.scope)
        for name, default in self._computed_defaults(node).items():
            made.defaults[name] = join(made.defaults[name], default) if again else default
        made.scope = scope
        self.defined.add(made)
        return made

    def _computed_defaults(self, node: cst.FunctionDef | cst.Lambda) -> dict[str, Value]:
        """Defaults that are no literals: Python computes them once, where the function is made."""
        given = (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params)
        return {
            one.name.value: self.default(one.default)
            for one in given
            if one.default is not None and not isinstance(one.default, _LITERALS)
        }

    def put(self, target: Instance, name: str, new: Value) -> None:
        """Let an attribute or element of an object be this too."""
        if self.tried is not None:
            self.tried_writes.append((target, name, target.attribute(name)))
        self.written.add((target, name))
        self.reads_change |= target.put(name, new)

    def undo_tried(self) -> None:
        """Let objects hold what they held before a trial that shows nothing of the real run."""
        for target, name, before in reversed(self.tried_writes):
            target.take_back(name, before)

    def give(self, target: Instance, name: str, new: Value) -> None:
        """Let an argument that an object was made with be this too."""
        self.reads_change |= target.give(name, new)

    def demand(self, node: cst.CSTNode, what: Value, reader: str) -> None:
        """Note that something reads a value that ranks hold only in part."""
        for atom in what.atoms:
            for counting in (
                atom.definition_sites if isinstance(atom, Data) and atom.is_position else ()
            ):
                self.demand(counting, self.seen(counting), uses.ROWS_OF_ALL)
        if self.collating:
            self.mixes(node, *what.data)
            return
        for data in what.data:
            alone = self.frame.in_forward and data.placement not in _REDUCIBLE
            rows = data.placement is Placement.SHARD and data.form is Layout.TENSOR
            number = not rows or data.one_each
            own = alone and number and reader != uses.ROWS_OF_ALL
            if own and size_uses.is_only_a_size(self.module.structure, node):
                continue  # a rank's own size does for its own rows
            if alone and reader == uses.A_CONDITION and data.placement is Placement.SHARD:
                continue  # several rows have no truth value: something else comes here
            # What is gathered for one call may make the next one's global; a count stands alone.
            counted = data.definition_sites if data.placement is Placement.COUNT else None
            key = (node, data.placement, counted)
            if key not in self.facts.demands:
                site = Site(node, self.project.owner(node) or self.module)
                self.facts.demands[key] = Demand(site, data, reader, self.call_path)

    def mixes(self, node: cst.CSTNode, *mixed: Data) -> None:
        """Note that samples of a batch depend on each other in a collate function, from here on."""
        for data in mixed:
            if data.dim != NO_ROWS and data.form is not Layout.SAMPLES:
                for loader in data.loaders:
                    self.facts.loading.mixed.setdefault(loader, self.site(node))

    def demand_all(self, node: cst.BaseExpression, what: Value, reader: str) -> None:
        """Note that something reads a value and, where it is a display, each of its parts."""
        parts = displayed(node)
        if parts is None:
            self.demand(node, what, reader)
        for part in parts or ():
            self.demand_all(part, self.seen(part), reader)

    def demand_held(self, node: cst.BaseExpression, what: Value, reader: str) -> None:
        """Note that something reads all that a value holds; in a display, where it stands."""
        parts = displayed(node)
        for part in parts or ():
            self.demand_held(part, self.seen(part), reader)
        for atom in self._generated(what) if parts is None else ():
            if isinstance(atom, Data) and (atom.placement.local or atom.is_position):
                self.demand(node, value(atom), reader)

    def _generated(self, what: Value) -> Iterator[Atom]:
        """All that a value holds, and what its generators give, if that is no batch of a loader."""
        for atom in deep_atoms(what):
            yield atom
            if not isinstance(atom, Instance) or atom.kind != "generator":
                continue
            if atom not in self.over_loaders:
                yield from deep_atoms(atom.elements)

    def effect(self, kind: str, node: cst.CSTNode, name: str) -> None:
        """Note an action on the outside world; in a file that stays, for each call from outside."""
        made = Effect(kind, self.site(node), name, self.call_path)
        known = self.facts.effects.setdefault((kind, node), made)
        call = made.reached_from
        if call is not None and call != known.reached_from:
            self.facts.effects.setdefault((kind, call.node), made)

    @contextmanager
    def without_grad(self, active: bool = True) -> Iterator[None]:
        """Inside, no graph is recorded."""
        self.no_grad += active
        try:
            yield
        finally:
            self.no_grad -= active

    @contextmanager
    def in_mode(self, training: bool | None) -> Iterator[None]:
        """Inside, a model's forward runs in this mode."""
        outer, self.training = self.training, training
        try:
            yield
        finally:
            self.training = outer

    @contextmanager
    def with_all_replicated(self, active: bool = True) -> Iterator[None]:
        """Inside, the script says that every rank holds all rows."""
        self.all_replicated += active
        try:
            yield
        finally:
            self.all_replicated -= active

    @contextmanager
    def trying(self, function: Function | None = None) -> Iterator[Facts]:
        """Inside, a function or an expression is tried: what is learned is kept apart."""
        outer = self.facts, self.results, self.previous, self.tried, self.ways, self.tried_writes
        self.tried_writes = []
        self.tried = function or self.tried
        self.facts = Facts(callers=outer[0].callers, switches=outer[0].switches)
        self.results, self.previous, self.ways = {}, {}, Ways()
        self.trials += 1
        try:
            yield self.facts
        finally:
            self.trials -= 1
            tried, writes = self.facts, self.tried_writes
            self.facts, self.results, self.previous, self.tried, self.ways, self.tried_writes = (
                outer
            )
            self.facts.taken_together |= tried.taken_together
            self.tried_writes = writes if self.tried is None else [*self.tried_writes, *writes]

    @contextmanager
    def in_collate(self) -> Iterator[None]:
        """Inside, samples are put together, which ranks do by themselves."""
        self.collating = True
        try:
            yield
        finally:
            self.collating = False

    @contextmanager
    def taking_rows(self, rows: Data | None) -> Iterator[None]:
        """Inside, each round takes one of these rows, if there are any."""
        self.rows_taken += [rows] if rows is not None else []
        try:
            yield
        finally:
            if rows is not None:
                self.rows_taken.pop()

    @contextmanager
    def through_replicated(self, active: bool) -> Iterator[None]:
        """Inside, each round takes a replicated batch."""
        self.taking_replicated += active
        try:
            yield
        finally:
            self.taking_replicated -= active

    # ------------------------------------------------------------------ names
    def bind(self, name: str, new: Value) -> None:
        """Assign to a name here."""
        scope = self.frame.scope
        if name in scope.shared:
            outer = scope.parent
            while outer is not None and outer.parent is not None and name not in outer.names:
                outer = outer.parent
            if outer is not None:
                outer.names[name] = join(outer.names.get(name, UNKNOWN), new)
                self.note_set_around(name, new)
            return
        scope.rebind(name, new)
        for loop in self.frame.loops:
            loop.assigned.add(name)

    def outlives_batch(self, target: cst.BaseExpression) -> bool:
        """Whether a target holds its value from one batch to the next."""
        if not isinstance(target, cst.Name) or target.value in self.frame.scope.shared:
            return True
        loops = [loop for loop in self.frame.loops if loop.takes_batches]
        return bool(loops) and target.value not in loops[-1].assigned

    def is_older(self, made: Instance) -> bool:
        """Whether an object was there before the current batch."""
        if self.tried is not None:
            return not self.tried.module.holds(self.tried.node, made.site)
        if self._is_of_this_call(made):
            return False
        loops = {loop.node for frame in self.frames for loop in frame.loops if loop.takes_batches}
        return not loops <= self.made_in.get(made, frozenset())

    def _is_of_this_call(self, made: Instance) -> bool:
        """Whether a function in progress made an object after the current batch had come."""
        for frame in reversed(self.frames):
            inside = frame.runs is not None and frame.module is made.module
            if inside and frame.module.holds(frame.runs, made.site):  # type: ignore[arg-type]
                own = (loop for loop in frame.loops if not frame.module.holds(loop.node, made.site))
                return not any(loop.takes_batches for loop in own)
            if any(loop.takes_batches for loop in frame.loops):
                return False
        return False

    def in_batch_loop(self) -> bool:
        """Whether the current batch is split among the ranks."""
        loops = [loop for frame in self.frames for loop in frame.loops]
        batch = not self.collating and any(loop.takes_batches for loop in loops)
        return batch and not self.in_replicated_loop()

    def takes_batch(self, source: str = "") -> None:
        """Note that the innermost loop takes a batch in each round.

        So do the loops around it, up to the one that makes the iterator of the name ``source``.
        """
        for loop in reversed(self.frame.loops):
            loop.taken = True
            if not source or source in loop.assigned:
                break

    def meets_split_batches(self) -> bool:
        """Whether the current batch, if there is one, may be split among the ranks."""
        replicated = bool(self.current_loaders) and self.current_loaders <= self.current_replicated
        return self.running_entry and not self.in_replicated_loop() and not replicated

    def in_replicated_loop(self) -> bool:
        """Whether the current batch is replicated."""
        looped = any(loop.takes_replicated for frame in self.frames for loop in frame.loops)
        return bool(self.taking_replicated) or looped

    # ------------------------------------------------------------------ code
    @abstractmethod
    def module_scope(self, module: ModuleFile) -> Scope:
        """The names that a module defines, after running it."""

    @abstractmethod
    def lookup(self, name: str) -> Value:
        """What a name stands for here."""

    @abstractmethod
    def block(self, body: cst.BaseSuite | cst.Module) -> bool:
        """Run a block; whether its end is reached."""

    @abstractmethod
    def eval(self, node: cst.BaseExpression) -> Value:
        """What an expression may stand for; noted among the facts."""

    @abstractmethod
    def default(self, node: cst.BaseExpression) -> Value:
        """The value of a parameter's default, which is no fact about the call that leaves it."""

    @abstractmethod
    def reduce(self, node: cst.BaseExpression, result: Value) -> Value:
        """The value of an expression that is to be reduced, and a note that it needed it."""

    @abstractmethod
    def call(
        self,
        node: cst.BaseExpression,
        callee: Value,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """Call anything."""

    @abstractmethod
    def call_layer(
        self,
        node: cst.BaseExpression,
        layer: Instance,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """Call the forward of a layer in a container, which the container's own call stands for."""

    @abstractmethod
    def call_forward(
        self, node: cst.BaseExpression, function: Function, args: list[Value]
    ) -> Value:
        """Call a function as a part of a model's forward."""

    @abstractmethod
    def iterate(self, node: cst.BaseExpression, iterable: Value) -> Value:
        """What ``for x in iterable`` binds."""

    @abstractmethod
    def collected(self, node: cst.BaseExpression, iterable: Value) -> Value:
        """What a collection holds that is made of all that an iterable gives."""

    @abstractmethod
    def attribute_of(self, node: cst.BaseExpression, atom: Atom, name: str) -> Value:
        """What ``atom.name`` is."""

    @abstractmethod
    def as_dictionary(self, node: cst.BaseExpression, atom: Instance) -> Value:
        """The attributes of an object that holds something of a batch, by name."""

    @abstractmethod
    def defined_in(self, node: cst.BaseExpression, module: Namespace) -> Instance:
        """The classes and functions that a module of the project has, as a dictionary."""

    @abstractmethod
    def module_named(self, full: str) -> Value:
        """The module of that name: of the project, or of a library."""

    @abstractmethod
    def is_model(self, instance: Instance) -> bool:
        """Whether an object is an ``nn.Module``."""

    @abstractmethod
    def note_set_around(self, name: str, new: Value) -> None:
        """A function has set a name of a function around it, or of the module."""

    @abstractmethod
    def keeps_from_batch(self, container: Instance, node: cst.BaseExpression, new: Value) -> Value:
        """What a container of longer life than the batch takes must be global, or is demanded."""

    def eval_all(self, nodes: Iterable[cst.BaseExpression]) -> list[Value]:
        """The values of several expressions."""
        return [self.eval(node) for node in nodes]

    def seen(self, node: cst.BaseExpression) -> Value:
        """What an expression was when it was last evaluated: in the call in progress."""
        return self.latest.get(node, UNKNOWN)
