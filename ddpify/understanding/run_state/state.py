"""The state of a run on abstract values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst

from ddpify.understanding.choices import Choices
from ddpify.understanding.contexts import Context, Contexts
from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.frames import Frame, Rounds
from ddpify.understanding.merged_calls import BRIEF, EXACT, Ways
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.run_state.code import Code
from ddpify.understanding.run_state.written import Place, Written
from ddpify.understanding.training_modes import Modes
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Data,
    Function,
    Instance,
    Namespace,
    QualifiedName,
    Scope,
    Value,
)


class State(Code):
    """What a run has come to: its frames, objects and facts."""

    def __init__(
        self,
        project: Project,
        choices: Choices | None = None,
        *,
        follow: bool = True,
        brief: bool = False,
    ) -> None:
        self.project = project
        self.budget = project.budget
        self.follow = follow  # into the project's functions, where they are called
        self.choices = choices or Choices()
        # Decided reductions without which this run might have done something else.
        self.effective: set[cst.CSTNode] = set()
        self.facts = Facts()
        self.heap: dict[tuple[cst.CSTNode, tuple[cst.CSTNode | int, ...], object], Instance] = {}
        self.made_in: dict[Instance, frozenset[cst.CSTNode]] = {}
        self.scopes: dict[ModuleFile, Scope] = {}
        self.loop_ends: dict[object, dict[str, Value]] = {}
        self.batch_loops: set[object] = set()  # that were seen to take a batch in each round
        self.results: dict[object, Value] = {}
        self.previous: dict[object, Value] = {}
        self.left: dict[object, dict[str, Value]] = {}  # what methods have set for constructors
        self.recalled: set[object] = set()  # calls that took their previous result
        self.running: set[object] = set()
        self.begun = 0  # how many steps there were before this pass
        self.merged = False  # whether a pass took calls together to come to its end sooner
        self.brief = brief  # so that what can be told soon is told, of large projects too
        self.ways = Ways(BRIEF if brief else EXACT)
        self.frames: list[Frame] = []
        self.frame: Frame  # the last of these, which nearly all that is done asks for
        self.no_grad = 0
        self.modes = Modes()
        self.criteria: set[tuple[Instance, bool]] = set()  # modules, and whether they are some
        self.without_parts: set[Value] = set()  # what was asked for parts of a batch, and held none
        self.training: bool | None = None  # the mode of the model in progress, where it is known
        self.all_replicated = 0  # inside of so many blocks where every rank holds all rows
        self.running_entry = False  # and not code that nothing calls
        self.trials = 0  # in progress
        self.tried: Function | None = None  # on a rank's rows
        self.tried_writes: list[tuple[Instance, str, Value | None]] = []  # and what was there
        self.collating = False  # whether a collate function puts samples together
        self.collated: Instance | None = None  # the loader whose samples it puts together
        # Lists with one item for each of the gathered rows, and those that may have others.
        self.of_all_ranks: set[Instance] = set()
        self.of_some_samples: set[Instance] = set()
        # Lists of a collate function with items that are of no sample, beside those of each.
        self.longer: set[Instance] = set()
        # Lists of a collate function: whether each has an item of every sample, or is of one.
        self.of_each_sample: dict[Instance, bool] = {}
        # Iterators over batches, with the loaders of these.
        self.over_loaders: dict[Instance, frozenset[Instance]] = {}
        self.taking_replicated = 0  # how many comprehensions in progress go through such batches
        self.recomputing = 0  # calls in progress of what is computed again in backward
        self.rounds: list[Rounds] = []  # of the loops over samples that are in progress
        self.rounds_of: dict[cst.CSTNode, Rounds] = {}
        self.rows_taken: list[Data] = []  # by loops over a batch's rows, the innermost last
        self.gone_through: list[cst.BaseExpression] = []  # what these loops go through
        # The loaders that the current batch comes from, for each way of getting here.
        self.current_loaders: frozenset[frozenset[Instance]] = frozenset()
        # Of comprehensions in progress that are gone through item by item, the item's number.
        self.items_in_turn: list[int] = []
        self.batches_so_far: list[frozenset[object]] = []  # where the loaders of each are made
        self.current_replicated: frozenset[frozenset[Instance]] = (
            frozenset()
        )  # those that may be replicated
        # Whether this pass changes what it has read before: only then does the next one differ.
        self.reads_change = False
        # Whether what this pass has started with stays a part of what the next one starts with.
        self.settling = False
        # What objects hold: written since the last batch came; read when it was of an earlier one.
        self.written = Written()
        self.writing: list[Written] = []  # the same of calls in progress
        self.wrote: dict[object, set[Place]] = {}  # and of those with a known result
        self.carried: set[tuple[object, str]] = set()
        self.aged: dict[Instance, Instance] = {}  # collections, as a later round has them
        # What a collate function makes, as loaders yield it, and what its parts are there.
        self.yielded_as: dict[
            tuple[Instance, frozenset[Instance]], tuple[Instance, dict[str, Value]]
        ] = {}
        self.set_around: dict[tuple[object, str], Value] = {}  # parts that names of others got
        self.functions: dict[tuple[cst.CSTNode, Context], Function] = {}
        self.defined: set[Function] = set()  # those of them that this pass has come to
        self._contexts = Contexts()
        self.classes: dict[cst.CSTNode, Class] = {}
        self._namespaces: dict[ModuleFile, Namespace] = {}
        self.called: set[cst.CSTNode] = set()
        # Layers' hooks that do with a rank's rows what they do with all; whether after the layer.
        self.hooks: dict[tuple[cst.CSTNode, Instance], tuple[Value, bool]] = {}
        # Functions of the project that stand under a library's names: ``F.relu = function``.
        self.replaced: dict[str, Value] = {}
        self.loaded_models: set[cst.CSTNode] = set()  # what takes a whole model out of a file
        # Functions that have some of their arguments, by the call that gives them.
        self.completed_in_part: dict[tuple[cst.CSTNode, Function], Function] = {}
        self.latest: dict[cst.CSTNode, Value] = {}
        # The attribute that an addition in progress reads, and the objects of which nothing else
        # has read it.
        self.added_to: cst.BaseExpression | None = None
        self.unread: list[Instance] = []

    def namespace(self, module: ModuleFile) -> Namespace:
        """A module as a value: the same one in every pass, so that values compare equal."""
        scope = self.module_scope(module)
        known = self._namespaces.setdefault(module, Namespace(module, scope))
        known.scope = scope
        return known

    def reduces(self, node: cst.CSTNode) -> bool:
        """Whether an expression is to be reduced, which makes a difference where this is asked."""
        found = node in self.choices.reduced
        if found:
            self.effective.add(node)
        return found

    def frames_forward(self) -> bool:
        """Whether code is in progress that treats each sample alone, as a model's forward does."""
        return self.collating or bool(self.frames and self.frames[-1].in_forward)

    @property
    def module(self) -> ModuleFile:
        """The file whose code runs."""
        return self.frame.module

    def enter(self, frame: Frame) -> None:
        """Let this be the call in progress."""
        self.frames.append(frame)
        self.frame = frame

    def leave(self) -> None:
        """Let the call in progress be the one that it came from."""
        self.frames.pop()
        if self.frames:
            self.frame = self.frames[-1]

    @contextmanager
    def running_in(self, frame: Frame) -> Iterator[None]:
        """Inside, this call is in progress; the steps that its own code takes are noted."""
        started = self.budget.used
        self.enter(frame)
        try:
            yield
        finally:
            self.leave()
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

    def seen(self, node: cst.BaseExpression) -> Value:
        """What an expression was when it was last evaluated: in the call in progress."""
        return self.latest.get(node, UNKNOWN)

    def calls_builtin(self, node: cst.CSTNode, *names: str) -> bool:
        """Whether this is a call of one of Python's own functions, which a script may hide."""
        called = self.seen(node.func).atoms if isinstance(node, cst.Call) else frozenset()
        wanted = {f"builtins.{name}" for name in names}
        return any(isinstance(one, QualifiedName) and one.name in wanted for one in called)
