"""Runs a script on abstract values: every expression gets what it may stand for.

Project functions are followed into at each call, with the values that the call passes; branches
are joined; loops run once in a pass, and passes repeat until nothing new is learned. Names are
never evidence: what a value is follows from where it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import libcst as cst

from ddpify.stack import roomy
from ddpify.understanding.arithmetic import tensor_pairs
from ddpify.understanding.batching import at_hand, batches, keeping
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Demand, Effect, Facts, Site
from ddpify.understanding.frames import Frame
from ddpify.understanding.language import births, calls, expressions, growing, statements
from ddpify.understanding.libraries import library
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import statements as statements_of
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Lib,
    Namespace,
    Number,
    Scope,
    Value,
    Whole,
    deep_atoms,
    join,
    value,
)

_PASSES = 5
_CONTEXT = 3  # calls that tell apart the objects made at one place
_MOST_CONTEXTS = 16  # of one place; what comes later shares one object, or the work would explode
_READ_IN_FORWARDS = (keeping.READER, tensor_pairs.READER)
_REDUCIBLE = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED)


class Interpreter:
    """One run over a project; :attr:`facts` holds what it learned."""

    def __init__(
        self, project: Project, choices: Choices | None = None, *, follow: bool = True
    ) -> None:
        self.project = project
        self.follow = follow  # into the project's functions, where they are called
        self.choices = choices or Choices()
        self.facts = Facts()
        self.heap: dict[tuple[cst.CSTNode, tuple[cst.CSTNode, ...], str], Instance] = {}
        self.born_in: dict[Instance, frozenset[cst.CSTNode]] = {}
        self.scopes: dict[ModuleFile, Scope] = {}
        self.loop_ends: dict[object, dict[str, Value]] = {}
        self.results: dict[object, Value] = {}
        self.previous: dict[object, Value] = {}
        self.running: set[object] = set()
        self.frames: list[Frame] = []
        self.no_grad = 0
        self.running_entry = False  # and not code that nothing calls
        self.collating = False  # whether a collate function puts samples together
        self.rows_taken: list[Data] = []  # by loops over a batch's rows, the innermost last
        # The loaders that the batch at hand comes from, for each way of getting here.
        self.at_hand: frozenset[frozenset[Instance]] = frozenset()
        self.changes = 0
        self.functions: dict[cst.CSTNode, Function] = {}
        self._contexts: dict[cst.CSTNode, int] = {}
        self.classes: dict[cst.CSTNode, Class] = {}
        self._namespaces: dict[ModuleFile, Namespace] = {}
        self.called: set[cst.CSTNode] = set()
        self._latest: dict[cst.CSTNode, Value] = {}

    # ------------------------------------------------------------------ running
    def run(self) -> Facts:
        """Interpret the entry, and code that nothing calls, until no new facts come."""
        seen = -1
        for _ in range(_PASSES):
            self._one_pass()
            state = self.changes + sum(len(v.atoms) for v in self.facts.values.values())
            if state == seen:
                break
            seen = state
        return self.facts

    def _one_pass(self) -> None:
        self.results.clear()
        self.scopes.clear()
        self.called.clear()
        self.at_hand = frozenset()
        values = self.facts.values
        self.facts = Facts(values=values)
        self.running_entry = True
        for entry in self.project.entries:
            self.module_scope(entry)
        self.running_entry = False
        for function in list(self.functions.values()):
            if function.node not in self.called and function.module in self.project.entries:
                self._call_unknown(function)

    def _call_unknown(self, function: Function) -> None:
        """A function that nobody calls here: its body still counts, with unknown arguments."""
        receiver = None
        self.frames.append(Frame(function.module, function.scope))
        try:
            if function.owner is not None:
                receiver = self.instance(function.owner.node, function.module, function.owner)
            calls.call_function(self, function, [], {}, receiver=receiver, site=None)
        finally:
            self.frames.pop()

    def module_scope(self, module: ModuleFile) -> Scope:
        """The names that a module defines, after running it."""
        if module not in self.scopes:
            scope = Scope(kind="module")
            scope.names["__name__"] = value(Const(module.name))
            self.scopes[module] = scope
            self.frames.append(Frame(module, scope))
            try:
                self.block(module.tree)
            finally:
                self.frames.pop()
        return self.scopes[module]

    def namespace(self, module: ModuleFile) -> Namespace:
        """A module as a value: the same one in every pass, so that values compare equal."""
        scope = self.module_scope(module)
        known = self._namespaces.setdefault(module, Namespace(module, scope))
        known.scope = scope
        return known

    def frames_forward(self) -> bool:
        """Whether code is in progress that treats each sample alone, as a model's forward does."""
        return self.collating or any(frame.in_forward for frame in self.frames)

    # ------------------------------------------------------------------ state
    @property
    def frame(self) -> Frame:
        """The call in progress."""
        return self.frames[-1]

    @property
    def module(self) -> ModuleFile:
        """The file whose code runs."""
        return self.frame.module

    def site(self, node: cst.CSTNode) -> Site:
        """A node of the running file."""
        return Site(node, self.module)

    @property
    def call_path(self) -> tuple[Site, ...]:
        """The calls in progress, outermost first."""
        return tuple(frame.call for frame in self.frames if frame.call is not None)

    def instance(self, node: cst.CSTNode, module: ModuleFile, kind: Class | str) -> Instance:
        """The object made at a place, one for each way of the last few calls that lead there."""
        callers = self._last_calls()
        name = kind if isinstance(kind, str) else kind.node.name.value
        key = (node, callers, name)
        if key not in self.heap:
            made = self._contexts[node] = self._contexts.get(node, 0) + 1
            key = key if made <= _MOST_CONTEXTS else (node, (), name)
        if key not in self.heap:
            self.heap[key] = Instance(node, module, kind)
            self.born_in[self.heap[key]] = self._batch_loops()
            self.changes += 1
        return self.heap[key]

    def _last_calls(self) -> tuple[cst.CSTNode, ...]:
        """The innermost calls in progress, outermost first."""
        found: list[cst.CSTNode] = []
        for frame in reversed(self.frames):
            if frame.call is not None:
                found.append(frame.call.node)
                if len(found) == _CONTEXT:
                    break
        return tuple(reversed(found))

    def put(self, target: Instance, name: str, new: Value) -> None:
        """Let an attribute or element of an object be this too."""
        old = target.attributes.get(name, UNKNOWN)
        both = join(old, new)
        if both != old or name not in target.attributes:
            target.attributes[name] = both
            self.changes += 1

    def demand(self, node: cst.CSTNode, what: Value, reader: str) -> None:
        """Note that something reads a value that ranks hold only in part."""
        for data in what.data if not self.collating else ():
            alone = self.frame.in_forward and data.placement not in _REDUCIBLE
            if alone and reader not in _READ_IN_FORWARDS:
                continue  # a forward treats each sample alone: it reads no batch
            # What is gathered for one call may make the next one's whole; a count stands alone.
            counted = data.births if data.placement is Placement.COUNT else None
            key = (node, data.placement, counted)
            if key not in self.facts.demands:
                self.facts.demands[key] = Demand(self.site(node), data, reader, self.call_path)

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

    # ------------------------------------------------------------------ names
    def lookup(self, name: str) -> Value:
        """What a name stands for here."""
        scope: Scope | None = self.frame.scope
        first = scope
        while scope is not None:
            skipped = scope.kind == "class" and scope is not first
            if name in scope.names and not skipped:
                return scope.names[name]
            for module in scope.stars:
                full = library.star_name(module, name)
                if full is not None and name not in expressions.BUILTINS:
                    return value(Lib(full))
            scope = scope.parent
        return value(Lib(f"builtins.{name}")) if name in expressions.BUILTINS else UNKNOWN

    def bind(self, name: str, new: Value) -> None:
        """Assign to a name here."""
        scope = self.frame.scope
        if name in scope.shared:
            outer = scope.parent
            while outer is not None and outer.parent is not None and name not in outer.names:
                outer = outer.parent
            if outer is not None:
                outer.names[name] = join(outer.names.get(name, UNKNOWN), new)
            return
        scope.names[name] = new
        scope.passed.discard(name)
        for loop in self.frame.loops:
            loop.assigned.add(name)

    def outlives_batch(self, target: cst.BaseExpression) -> bool:
        """Whether a target holds its value from one batch to the next."""
        if not isinstance(target, cst.Name) or target.value in self.frame.scope.shared:
            return True
        loops = [loop for loop in self.frame.loops if loop.takes_batches]
        return bool(loops) and target.value not in loops[-1].assigned

    def _batch_loops(self) -> frozenset[cst.CSTNode]:
        return frozenset(
            loop.node for frame in self.frames for loop in frame.loops if loop.takes_batches
        )

    def is_older(self, made: Instance) -> bool:
        """Whether an object was there before the batch at hand."""
        return not self._batch_loops() <= self.born_in.get(made, frozenset())

    def keeps_from_batch(self, container: Instance, node: cst.BaseExpression, new: Value) -> Value:
        """What a container of longer life than the batch takes must be whole, or is demanded."""
        if not self.is_older(container):
            return new
        local = [a for a in deep_atoms(new) if isinstance(a, Data) and a.placement.local]
        for data in local:
            self.demand(node, value(data), growing.READER)
        return births.reduced(new) if local else new

    def in_batch_loop(self) -> bool:
        """Whether a batch that is split among the ranks is the one at hand."""
        loops = [loop for frame in self.frames for loop in frame.loops]
        batch = not self.collating and any(loop.takes_batches for loop in loops)
        return batch and not self._in_whole_loop()

    def takes_batch(self) -> None:
        """Note that the innermost loop takes a batch in each round."""
        if self.frame.loops:
            self.frame.loops[-1].takes_batches = True

    # ------------------------------------------------------------------ code
    def block(self, body: cst.BaseSuite | cst.Module) -> bool:
        """Run a block; whether its end is reached."""
        return all(statements.execute(self, one) for one in statements_of(body))

    def eval(self, node: cst.BaseExpression) -> Value:
        """What an expression may stand for; noted among the facts."""
        result = expressions.evaluate(self, node)
        choices = self.choices
        # Most runs have decided nothing yet, and asking a dictionary for a node is not cheap.
        if choices.batches:
            result = batches.split(self, node, result)
        if choices.split and node in choices.split:
            result = value(Data(Placement.SHARD, choices.split[node]))
        if choices.reduced and node in choices.reduced:
            result = self.reduce(node, result)
        self._latest[node] = result
        self.facts.record(node, result)
        return result

    def default(self, node: cst.BaseExpression) -> Value:
        """The value of a parameter's default, which is no fact about the call that leaves it."""
        return expressions.evaluate(self, node)

    def seen(self, node: cst.BaseExpression) -> Value:
        """What an expression was when it was last evaluated: in the call in progress."""
        return self._latest.get(node, UNKNOWN)

    def reduce(self, node: cst.BaseExpression, result: Value) -> Value:
        """The value of an expression that is to be reduced, and a note that it needed it."""
        path = self.call_path
        if result.data:
            self.facts.reduced.setdefault(node, set()).update(result.data)
            self.facts.reduced_through.setdefault(node, set()).add(path)
            at_hand.used(self, node, result.data)
            if any(isinstance(a, Data) and a.form == "gathered" for a in result.atoms):
                self.facts.half_gathered.add(node)
        else:
            self.facts.reduced_whole.setdefault(node, self.site(node))
            known = any(isinstance(a, (Data, Number, Whole)) for a in result.atoms)
            if known and self.meets_split_batches():
                self.facts.whole_through.setdefault(node, set()).add(path)
        return births.reduced(result)

    def meets_split_batches(self) -> bool:
        """Whether the batch at hand, if there is one, may be split among the ranks."""
        return self.running_entry and not self._in_whole_loop()

    def _in_whole_loop(self) -> bool:
        """Whether the batch at hand is one that every rank gets whole."""
        return any(loop.takes_whole for frame in self.frames for loop in frame.loops)

    def eval_all(self, nodes: Iterable[cst.BaseExpression]) -> list[Value]:
        """The values of several expressions."""
        return [self.eval(node) for node in nodes]

    def call(
        self,
        node: cst.BaseExpression,
        callee: Value,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """Call anything."""
        return calls.call(self, node, callee, args, dict(kwargs))


@roomy
def interpret(project: Project, choices: Choices | None = None, *, follow: bool = True) -> Facts:
    """The facts of a project under some choices; of each function alone without ``follow``."""
    return Interpreter(project, choices, follow=follow).run()
