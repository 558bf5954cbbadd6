"""Runs a script on abstract values: every expression gets what it may stand for.

Project functions are followed into at each call, with the values that the call passes; branches
are joined; loops run once in a pass, and passes repeat until nothing new is learned. Names are
never evidence: what a value is follows from where it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding import (
    attributes,
    batches,
    births,
    calls,
    draws,
    elements,
    expressions,
    keeping,
    library,
    narrowing,
    together,
)
from ddpify.understanding.facts import Demand, Effect, Facts, Site
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import is_main_guard, statements
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Lib,
    Namespace,
    Params,
    Scope,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

_PASSES = 5
_CONTEXT = 3  # calls that tell apart the objects made at one place
_BATCHES = ("batch", "yielded")
_MOST_CONTEXTS = 16  # of one place; what comes later shares one object, or the work would explode
_REDUCIBLE = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED)


@dataclass(slots=True)
class Choices:
    """What a conversion has decided so far, for the next run to take into account."""

    reduced: set[cst.CSTNode] = field(default_factory=set)
    replicated: set[cst.CSTNode] = field(default_factory=set)  # loaders' places that are not split
    trained: set[cst.CSTNode] = field(default_factory=set)  # loaders' places that feed a backward
    # Calls that return the whole batch's rows, with the loaders of that batch.
    split: dict[cst.CSTNode, frozenset[Instance]] = field(default_factory=dict)
    by_hand: bool = False  # whether to look for batches that no loader makes
    batches: dict[cst.CSTNode, int] = field(
        default_factory=dict
    )  # their places, and batch dimension
    flat: set[cst.CSTNode] = field(default_factory=set)  # of those, with several rows a sample
    split_all: bool = False  # whether batches of evaluations are split too


@dataclass(slots=True)
class Loop:
    """A loop in progress: names its body has set, and whether each round takes a batch."""

    node: cst.CSTNode
    takes_batches: bool = False
    takes_whole: bool = False  # batches that are not split
    # The loaders that batches come from, those that may give the same batch together.
    loaders: list[frozenset[Instance]] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    left: list[dict[str, Value]] = field(default_factory=list)


@dataclass(slots=True)
class Frame:
    """One call in progress."""

    module: ModuleFile
    scope: Scope
    call: Site | None = None
    receiver: Instance | None = None
    in_forward: bool = False
    returned: list[Value] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)


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
        self.collating = False  # whether a collate function puts samples together
        self.rows_taken: list[Data] = []  # by loops over a batch's rows, the innermost last
        self.changes = 0
        self.functions: dict[cst.CSTNode, Function] = {}
        self._contexts: dict[cst.CSTNode, int] = {}
        self._classes: dict[cst.CSTNode, Class] = {}
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
        values = self.facts.values
        self.facts = Facts(values=values)
        for entry in self.project.entries:
            self.module_scope(entry)
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
        callers = tuple(site.node for site in self.call_path[-_CONTEXT:])
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
            if alone and reader != keeping.READER:
                continue  # a forward treats each sample alone: it reads no batch
            key = (node, data.placement)
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
            self.demand(node, value(data), "a collection that outlives the batch")
        return births.reduced(new) if local else new

    def in_batch_loop(self) -> bool:
        """Whether a batch that is split among the ranks is the one at hand."""
        loops = [loop for frame in self.frames for loop in frame.loops]
        batch = not self.collating and any(loop.takes_batches for loop in loops)
        return batch and not any(loop.takes_whole for loop in loops)

    def takes_batch(self) -> None:
        """Note that the innermost loop takes a batch in each round."""
        if self.frame.loops:
            self.frame.loops[-1].takes_batches = True

    # ------------------------------------------------------------------ statements
    def block(self, body: cst.BaseSuite | cst.Module) -> bool:
        """Run a block; whether its end is reached."""
        return all(self.statement(statement) for statement in statements(body))

    def statement(self, node: cst.BaseStatement) -> bool:
        """Run one statement; whether the next one is reached."""
        if isinstance(node, cst.SimpleStatementLine):
            return all(self._small(small) for small in node.body)
        handler = getattr(self, f"_run_{type(node).__name__}", None)
        return True if handler is None else bool(handler(node))

    def _small(self, node: cst.BaseSmallStatement) -> bool:
        handler = getattr(self, f"_do_{type(node).__name__}", None)
        return True if handler is None else handler(node) is not False

    def _do_Expr(self, node: cst.Expr) -> None:
        self.eval(node.value)

    def _do_Assign(self, node: cst.Assign) -> None:
        result = self._born(self.eval(node.value), node.value)
        if not any(isinstance(t.target, cst.Tuple) for t in node.targets):
            result = batches.born(self, result, node.value)
        elif isinstance(node.value, cst.Tuple):
            result = self._named_parts(result, node.value)
        for target in node.targets:
            if isinstance(target.target, cst.Tuple) and not isinstance(node.value, cst.Tuple):
                self._unpack(target.target, result, named=True)
            else:
                self.assign(target.target, result)
                self._kept(target.target, node.value, result)

    def _kept(
        self,
        target: cst.BaseExpression,
        shown: cst.BaseExpression,
        new: Value,
        *,
        added: bool = False,
    ) -> None:
        """What a tensor takes that is kept from batch to batch must be whole."""
        if isinstance(target, cst.Subscript):
            keeping.item(self, target, shown, new)
        elif isinstance(target, cst.Attribute):
            keeping.buffer(self, target, shown, new, added=added)

    def _do_AnnAssign(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            result = self._born(self.eval(node.value), node.value)
            self.assign(node.target, batches.born(self, result, node.value))

    def _named_parts(self, result: Value, node: cst.Tuple) -> Value:
        """Batches among the parts of a tuple get their names."""
        parts = [
            batches.born(self, part, element.value)
            for tup in result.of(Tup)
            for part, element in zip(tup.items, node.elements, strict=False)  # type: ignore[union-attr]
        ]
        return value(Tup(tuple(parts))) if parts else result

    def _born(self, result: Value, node: cst.BaseExpression, *, always: bool = False) -> Value:
        """A partial value that gets a name can be reduced where it gets it."""
        if not result.data or (isinstance(node, (cst.Name, cst.Tuple)) and not always):
            return result
        atoms = [births.born_at(a, node) for a in result.atoms]
        return join(value(*atoms))

    def _do_AugAssign(self, node: cst.AugAssign) -> None:
        old, new = self.eval(node.target), self.eval(node.value)
        operator = expressions.OPERATORS.get(type(node.operator), "?")
        result = expressions.accumulate(self, node, operator, old, new)
        self.assign(node.target, result)
        self._kept(node.target, node.value, new, added=True)

    def _do_Return(self, node: cst.Return) -> bool:
        result = self.eval(node.value) if node.value is not None else value(Const(None))
        self.frame.returned.append(result)
        return False

    def _do_Raise(self, node: cst.Raise) -> bool:
        if node.exc is not None:
            self.eval(node.exc)
        return False

    def _do_Break(self, node: cst.Break) -> bool:
        return self._leave_loop()

    def _do_Continue(self, node: cst.Continue) -> bool:
        return self._leave_loop()

    def _leave_loop(self) -> bool:
        if self.frame.loops:
            self.frame.loops[-1].left.append(dict(self.frame.scope.names))
        return False

    def _do_Assert(self, node: cst.Assert) -> None:
        self.condition(node.test)

    def _do_Global(self, node: cst.Global) -> None:
        self.frame.scope.shared |= {item.name.value for item in node.names}

    _do_Nonlocal = _do_Global

    def _do_Del(self, node: cst.Del) -> None:
        if isinstance(node.target, cst.Name):
            self.frame.scope.names.pop(node.target.value, None)

    def _do_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            full = expressions.dotted_name(alias.name)
            local = self.project.resolve(full, self.module)
            if alias.asname is not None:
                assert isinstance(alias.asname.name, cst.Name)
                self.bind(alias.asname.name.value, self._imported(local, full))
            elif "." not in full:
                self.bind(full, self._imported(local, full))
            else:
                self._import_dotted(full, local)

    def _import_dotted(self, full: str, local: ModuleFile | None) -> None:
        top = full.split(".")[0]
        package = self.project.resolve(top, self.module)
        if local is None and package is None:
            self.bind(top, value(Lib(top)))
            return
        if local is not None:
            self.module_scope(local)
        self.bind(top, value(attributes.package_value(self, top)))

    def _imported(self, local: ModuleFile | None, full: str) -> Value:
        if local is None:
            return value(Lib(full))
        return value(self.namespace(local))

    def _do_ImportFrom(self, node: cst.ImportFrom) -> None:
        base = expressions.dotted_name(node.module) if node.module is not None else ""
        level = len(node.relative)
        local = self.project.resolve(base, self.module, level)
        if isinstance(node.names, cst.ImportStar):
            if local is not None:
                self.frame.scope.names.update(self.module_scope(local).names)
            elif base:
                self.frame.scope.stars.append(base)
            return
        for alias in node.names:
            name = expressions.dotted_name(alias.name)
            asname = alias.asname.name.value if alias.asname is not None else name  # type: ignore[union-attr]
            self.bind(asname, self._member(local, base, name, level))

    def _member(self, local: ModuleFile | None, base: str, name: str, level: int) -> Value:
        if local is not None:
            found = self.module_scope(local).names.get(name)
            if found is not None:
                return found
        joined = f"{base}.{name}" if base else name
        submodule = self.project.resolve(joined, self.module, level)
        if submodule is not None:
            return self._imported(submodule, joined)
        return UNKNOWN if local is not None or level else value(Lib(f"{base}.{name}"))

    # ------------------------------------------------------------------ compound statements
    def _run_FunctionDef(self, node: cst.FunctionDef) -> bool:
        scope = self.frame.scope
        function = Function(node, self.module, scope)
        function = self.functions.setdefault(node, function)
        function.scope = scope
        self.bind(node.name.value, value(function))
        for decorator in node.decorators:
            self.eval(decorator.decorator)
        return True

    def _run_ClassDef(self, node: cst.ClassDef) -> bool:
        bases = [self.eval(arg.value) for arg in node.bases]
        scope = Scope(kind="class", parent=self.frame.scope)
        made = Class(node, self.module, scope, bases)
        self.frames.append(Frame(self.module, scope, self.frame.call))
        try:
            self.block(node.body)
        finally:
            self.frames.pop()
        for held in scope.names.values():
            for function in held.of(Function):
                assert isinstance(function, Function)
                function.owner = made
        self.bind(node.name.value, value(self._class_once(made)))
        return True

    def _class_once(self, made: Class) -> Class:
        """The same class object in every pass, so that values compare equal."""
        known = self._classes.setdefault(made.node, made)
        if known is not made:
            known.scope, known.bases = made.scope, made.bases
            for held in made.scope.names.values():
                for function in held.of(Function):
                    assert isinstance(function, Function)
                    function.owner = known
        return known

    def _run_If(self, node: cst.If) -> bool:
        if is_main_guard(node.test):
            if self.module not in self.project.entries:
                return True
            return self.block(node.body)
        truth = self.condition(node.test)
        truth = narrowing.decided(self, node.test) if truth is None else truth
        return self._branches(node, truth)

    def _branches(self, node: cst.If, truth: bool | None) -> bool:
        """Run the branches that can be taken, each from the same start, and join what they do."""
        other = node.orelse
        start = dict(self.frame.scope.names)
        ends: list[dict[str, Value]] = []
        others: list[dict[str, Value]] = []
        possible = self._narrow(node.test, holds=True)
        if truth is not False and self.block(node.body):
            (ends if possible else others).append(dict(self.frame.scope.names))
        self.frame.scope.names.clear()
        self.frame.scope.names.update(start)
        possible = self._narrow(node.test, holds=False)
        if truth is not True:
            if other is None:
                reached = True
            elif isinstance(other, cst.If):
                reached = self._run_If(other)
            else:
                reached = self.block(other.body)
            if reached:
                (ends if possible else others).append(dict(self.frame.scope.names))
        return self._join_ends(ends or others)

    def _narrow(self, test: cst.BaseExpression, *, holds: bool) -> bool:
        """In a branch after a test of x's type, x is not what it cannot be; whether it is anything.

        What is taken for rows may turn out to be a list of them: then, a branch that is not for
        rows still has to be understood, but what it leaves is not.
        """
        found = narrowing.tested(self, test)
        held = self.frame.scope.names.get(found[0]) if found is not None else None
        if found is None or held is None:
            return True
        name, fits, positive = found
        fitting = [a for a in held.atoms if fits(a) in (holds is positive, None)]
        self.frame.scope.names[name] = value(*fitting) if fitting else held
        return bool(fitting) or fits is narrowing.is_tensor or not held

    def _join_ends(self, ends: list[dict[str, Value]]) -> bool:
        if not ends:
            return False
        names = self.frame.scope.names
        names.clear()
        for name in dict.fromkeys(n for end in ends for n in end):
            names[name] = join(*(end[name] for end in ends if name in end))
        return True

    def condition(self, test: cst.BaseExpression) -> bool | None:
        """Evaluate a test; its truth where it is a literal."""
        result = self.eval(test)
        self.demand(test, result, "a condition")
        return self.truth(test, result)

    def truth(self, test: cst.BaseExpression, result: Value) -> bool | None:
        """Whether a test surely holds: literals, what the call passes, what follows from both.

        A name is a setting that the user may change, unless the call in progress gives its value;
        so is what an object of a library holds, such as the options of the command line.
        """
        constant = result.constant()
        if constant is ...:
            return None
        return None if self._is_setting(test) else bool(constant)

    def _is_setting(self, test: cst.BaseExpression) -> bool:
        if isinstance(test, cst.Name):
            return test.value not in self.frame.scope.passed
        owners = self.facts.values.get(test.value) if isinstance(test, cst.Attribute) else None
        return owners is not None and any(
            isinstance(a, Instance) and isinstance(a.type, str) for a in owners.atoms
        )

    def _run_For(self, node: cst.For) -> bool:
        iterable = self.eval(node.iter)

        def bind() -> None:
            element = elements.iterate(self, node.iter, iterable)
            loaded = any(isinstance(a, Data) and a.form in _BATCHES for a in deep_atoms(element))
            if loaded or (self.choices.by_hand and _yields_rows(iterable, element)):
                self.takes_batch()
                together.taken_at_once(self, node.iter, element)
                self.frame.loops[-1].loaders.append(together.sources(element))
            self.assign(node.target, self._named_target(node.target, element))

        with self.taking_rows(draws.rows_of(self, node.iter)):
            return self._loop(node, node.body, node.orelse, bind)

    def _named_target(self, target: cst.BaseExpression, element: Value) -> Value:
        """What a loop binds, with the places where batches in it get their names."""
        if isinstance(target, cst.Name):
            return batches.split(self, target, batches.born(self, element, target))
        if not isinstance(target, cst.Tuple) or not self.choices.by_hand:
            return element
        count = len(target.elements)
        parts = [
            self._named_target(one.value, batches.unpacked(self, part))
            for position, one in enumerate(target.elements)
            for part in [elements.unpacked(self, element, position, count)]
        ]
        return value(Tup(tuple(parts)))

    def _run_While(self, node: cst.While) -> bool:
        def bind() -> None:
            self.condition(node.test)

        return self._loop(node, node.body, node.orelse, bind)

    def _loop(self, node, body, orelse, bind) -> bool:  # type: ignore[no-untyped-def]
        scope = self.frame.scope
        key = (node, tuple((frame.call, frame.receiver) for frame in self.frames))
        before = dict(scope.names)
        for name, late in self.loop_ends.get(key, {}).items():
            scope.names[name] = join(scope.names.get(name, UNKNOWN), late)
        self.frame.loops.append(Loop(node))
        bind()
        if self.block(body):
            self._leave_loop()
        ends = self.frame.loops.pop().left
        endless = isinstance(node, cst.While) and isinstance(node.test, cst.Name)
        reached = self._join_ends([before, *ends])
        self.loop_ends[key] = dict(scope.names)
        if orelse is not None:
            self.block(orelse.body)
        return reached or endless

    def _run_With(self, node: cst.With) -> bool:
        silent = 0
        for item in node.items:
            result = self.eval(item.item)
            silent += expressions.is_no_grad(result)
            if item.asname is not None:
                self.assign(item.asname.name, expressions.entered(result))
        with self.without_grad(bool(silent)):
            return self.block(node.body)

    def _run_Try(self, node: cst.Try) -> bool:
        start = dict(self.frame.scope.names)
        ends = []
        if self.block(node.body) and (node.orelse is None or self.block(node.orelse.body)):
            ends.append(dict(self.frame.scope.names))
        middle = dict(self.frame.scope.names)
        for handler in node.handlers:
            self._join_ends([start, middle])
            if handler.name is not None and isinstance(handler.name.name, cst.Name):
                self.bind(handler.name.name.value, UNKNOWN)
            if self.block(handler.body):
                ends.append(dict(self.frame.scope.names))
        reached = self._join_ends(ends)
        if node.finalbody is not None:
            self.block(node.finalbody.body)
        return reached

    def _run_Match(self, node: cst.Match) -> bool:
        self.eval(node.subject)
        start = dict(self.frame.scope.names)
        ends = [start]
        for case in node.cases:
            self._join_ends([start])
            if self.block(case.body):
                ends.append(dict(self.frame.scope.names))
        return self._join_ends(ends)

    # ------------------------------------------------------------------ assignment
    def assign(self, target: cst.BaseExpression, new: Value) -> None:
        """Assign a value to a target of any form."""
        if isinstance(target, cst.Name):
            self.facts.record(target, new)
            self.bind(target.value, new)
        elif isinstance(target, (cst.Tuple, cst.List)):
            self._unpack(target, new)
        elif isinstance(target, cst.StarredElement):
            self.assign(target.value, new)
        elif isinstance(target, cst.Attribute):
            self._assign_attribute(target, new)
        elif isinstance(target, cst.Subscript):
            self._assign_item(target, new)

    def _unpack(self, target: cst.Tuple | cst.List, new: Value, *, named: bool = False) -> None:
        """Assign the parts of a value; a partial one that is named here can be reduced here."""
        count = len(target.elements)
        for position, element in enumerate(target.elements):
            part = elements.unpacked(self, new, position, count)
            if named and isinstance(element.value, cst.Name):
                part = self._born(batches.unpacked(self, part), element.value, always=True)
                part = batches.split(self, element.value, batches.born(self, part, element.value))
                if element.value in self.choices.reduced:
                    part = self.reduce(element.value, part)
            self.assign(element.value, part)

    def _assign_attribute(self, target: cst.Attribute, new: Value) -> None:
        owner = self.eval(target.value)
        for atom in owner.atoms:
            if isinstance(atom, Instance):
                attributes.attribute_set(self, target, atom, new)
                self.put(atom, target.attr.value, new)
            elif isinstance(atom, Class):
                atom.scope.names[target.attr.value] = new
            elif isinstance(atom, Params) and target.attr.value == "requires_grad":
                self.facts.event(atom.owner, "change", self.site(target))

    def _assign_item(self, target: cst.Subscript, new: Value) -> None:
        owner = self.eval(target.value)
        key = elements.subscript_key(self, target)
        picked = any(d.placement is Placement.ROWS for d in new.data)
        for atom in owner.of(Instance):
            assert isinstance(atom, Instance)
            kept = self.keeps_from_batch(atom, target, new) if picked else new
            self.put(atom, key, kept)

    # ------------------------------------------------------------------ expressions
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
        return self.facts.record(node, result)

    def seen(self, node: cst.BaseExpression) -> Value:
        """What an expression was when it was last evaluated: in the call in progress."""
        return self._latest.get(node, UNKNOWN)

    def reduce(self, node: cst.BaseExpression, result: Value) -> Value:
        """The value of an expression that is to be reduced, and a note that it needed it."""
        if result.data:
            self.facts.reduced.setdefault(node, set()).update(result.data)
        else:
            self.facts.reduced_whole.setdefault(node, self.site(node))
        return births.reduced(result)

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


def _yields_rows(iterable: Value, element: Value) -> bool:
    """Whether an iterator of the project's own makes a batch in each round."""
    makes = any(
        isinstance(a, Instance) and (a.type == "generator" or isinstance(a.type, Class))
        for a in iterable.atoms
    )
    return makes and any(
        isinstance(a, Data) and a.placement is Placement.SHARD for a in deep_atoms(element)
    )


def interpret(project: Project, choices: Choices | None = None, *, follow: bool = True) -> Facts:
    """The facts of a project under some choices; of each function alone without ``follow``."""
    return Interpreter(project, choices, follow=follow).run()
