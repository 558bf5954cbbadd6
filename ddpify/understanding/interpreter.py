"""Runs a script on abstract values: every expression gets what it may stand for.

Project functions are followed into at each call, with the values that the call passes; branches
are joined; loops run once in a pass, and passes repeat until one changes nothing that it has read
before: the next one would read, and do, the same. Names are never evidence: what a value is follows
from where it was made.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from ddpify.stack import roomy
from ddpify.understanding import definition_sites, uses
from ddpify.understanding.arguments import local_data
from ddpify.understanding.batching import (
    carried_values,
    collating,
    current_batch,
    earlier_samples,
    handmade_batches,
    held_parts,
)
from ddpify.understanding.budget import Exhausted
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts
from ddpify.understanding.frames import Frame
from ddpify.understanding.language import (
    attributes,
    calls,
    elements,
    expressions,
    imports,
    statements,
)
from ddpify.understanding.libraries import (
    criteria,
    library,
    object_kinds,
    opened_files,
    random_numbers,
)
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.run_state import RunState
from ddpify.understanding.shapes import bounds
from ddpify.understanding.syntax import statements as statements_of
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Const,
    Data,
    Function,
    Instance,
    Namespace,
    Number,
    ReplicatedTensor,
    Scope,
    Tup,
    Value,
    library_value,
    value,
)

_PASSES = 5
_TELLING_PASSES = 2  # after which little comes to what is known
_FREE_PASSES = 2  # what shrinks again in those after them might go on so for ever


class Interpreter(RunState):
    """One run over a project; :attr:`facts` holds what it learned."""

    # ------------------------------------------------------------------ running
    def run(self) -> Facts:
        """Interpret the entry, and code that nothing calls, until nothing comes out differently."""
        for number in range(_PASSES):
            self.settling = number >= _FREE_PASSES
            if not self._ends_pass(number) or not self._is_outdated():
                break
        self.facts.brief = self.merged
        self.facts.reductions.effective = self.effective
        opened_files.forget_read(self.facts)
        return self.facts

    def _ends_pass(self, number: int) -> bool:
        """Interpret all of it once more, after so many passes; whether that came to its end.

        What two passes of a ``brief`` run have found is kept where a third is cut short, and none
        is begun any more that might well be.
        """
        found = self.facts
        told = number >= _TELLING_PASSES and self.brief
        try:
            if told and self.budget.used > self.budget.most // 4:
                raise Exhausted(self.budget)
            self.one_pass()
        except Exhausted as error:
            if not told:
                raise
            error.passes = number
            _locate(self.project, error)
            self.facts, found.cut_short = found, error
            return False
        self.merged |= self.ways.bounds.has_many(self.budget.used - self.begun)
        return True

    def _is_outdated(self) -> bool:
        """Whether anything that this pass has read, or answered, would be something else now."""
        return (
            self.reads_change
            or criteria.outdated(self)
            or held_parts.outdated(self)
            or self.modes.outdated(self.facts)
        )

    def one_pass(self) -> None:
        """Interpret all of it once, with what the passes before have left."""
        self.reads_change = False
        yielded = (made for made, _ in self.yielded_as.values())
        for made in (*self.heap.values(), *yielded):
            made.forget_reads()
        per_pass = (self.results, self.left, self.wrote, self.scopes, self.called, self.latest)
        for known in (*per_pass, self.hooks, self.replaced):
            known.clear()
        self.defined.clear()
        self.ways.start_pass()
        self.begun = self.budget.used
        self.current_loaders = frozenset()
        self.batches_so_far.clear()
        self.modes.answers.clear()
        self.criteria.clear()
        self.without_parts.clear()
        self.facts = self.facts.followed()
        self.running_entry = True
        for entry in self.project.entries:
            self.module_scope(entry)
        self.running_entry = False
        self._run_uncalled()

    def _run_uncalled(self) -> None:
        """Functions that nothing has called, and those that are defined in them."""
        seen = set(self.choices.left_out)
        while new := [f for f in self.functions.values() if f.node not in seen]:
            for function in new:
                seen.add(function.node)
                if function.node not in self.called and function.module in self.project.entries:
                    self._call_unknown(function)

    def _call_unknown(self, function: Function) -> None:
        """A function that nobody calls here: its body still counts, with unknown arguments."""
        receiver = None
        self.enter(Frame(function.module, function.scope))
        try:
            if function.owner is not None:
                receiver = self.instance(function.owner.node, function.module, function.owner)
            # What enters layers there is no batch of its own.
            inside = (
                receiver is not None and object_kinds.is_model(receiver) and _is_forward(function)
            )
            inside = inside and self.choices.by_hand
            calls.call_function(self, function, [], {}, receiver, None, forward=inside)
        finally:
            self.leave()

    def module_scope(self, module: ModuleFile) -> Scope:
        """The names that a module defines, after running it."""
        if module not in self.scopes:
            scope = Scope(kind="module")
            scope.names["__name__"] = value(Const(module.name))
            self.scopes[module] = scope
            with self.running_in(Frame(module, scope)):
                self.block(module.tree)
        return self.scopes[module]

    def lookup(self, name: str) -> Value:
        """What a name stands for here."""
        scope: Scope | None = self.frame.scope
        first = scope
        while scope is not None:
            skipped = scope.kind == "class" and scope is not first
            if name in scope.names and not skipped:
                if scope is not first:
                    scope.captured.add(name)
                if scope is first:
                    return scope.names[name]
                return carried_values.read_around(self, name, scope.held(name))
            for module in scope.stars:
                full = library.star_name(module, name)
                if full is not None and name not in expressions.BUILTINS:
                    return library_value(full)
            scope = scope.parent
        return library_value(f"builtins.{name}") if name in expressions.BUILTINS else UNKNOWN

    # ------------------------------------------------------------------ code
    def block(self, body: cst.BaseSuite | cst.Module) -> bool:
        """Run a block; whether its end is reached."""
        for one in statements_of(body):  # noqa: SIM110  (a generator takes longer)
            if not statements.execute(self, one):
                return False
        return True

    def eval(self, node: cst.BaseExpression) -> Value:
        """What an expression may stand for; noted among the facts."""
        budget = self.budget
        budget.used += 1
        if budget.used > budget.most:
            raise Exhausted(budget)
        result = expressions.evaluate(self, node)
        if self.collating:
            result = collating.whole(self, node, result)
        if self.rounds and isinstance(node, (cst.Name, cst.Attribute)):
            earlier_samples.read_containers(self, node, result)
        choices = self.choices
        # Most runs have decided nothing yet, and asking a dictionary for a node is not cheap.
        if choices.batches:
            result = handmade_batches.split(self, node, result)
        if choices.split and node in choices.split:
            if has_no_rows(result) or has_own_rows(result):
                self.facts.loading.split_replicated.setdefault(node, self.site(node))
            result = own_rows(result, choices.split[node])
        if len(result.atoms) > 1:
            result = self._of_one_placement(node, result)
        if choices.apart and node in choices.apart:
            self.demand(
                node, value(*definition_sites.named_before(result, node)), uses.ONE_PLACEMENT
            )
        if choices.reduced and node in choices.reduced:
            result = self.reduce(node, result)
        self.latest[node] = result = self.facts.record(node, result)
        return result

    def _of_one_placement(self, node: cst.BaseExpression, result: Value) -> Value:
        """Ask for the rows of all ranks where these or a rank's own may come.

        What a model makes is no longer told apart where it is called.
        """
        bounds.count_unsure(self, result)
        rows = definition_sites.half_gathered(result)
        if rows and node in self.facts.forwards.sharded_calls:
            result = definition_sites.rows_named(result, node)
            rows = definition_sites.half_gathered(result)
        if definition_sites.may_be_rows_or_whole(result, node):
            self.facts.reductions.beside_whole.add(node)
        sums = definition_sites.added_beside_whole(result)
        self.demand(node, value(*rows, *sums), uses.ONE_PLACEMENT)
        return result

    def default(self, node: cst.BaseExpression) -> Value:
        """The value of a parameter's default, which is no fact about the call that leaves it."""
        return expressions.evaluate(self, node)

    def reduce(self, node: cst.BaseExpression, result: Value) -> Value:
        """The value of an expression that is to be reduced, and a note that it needed it."""
        path = self.call_path
        if self.all_replicated and not result.data:
            return result
        if result.data:
            self.facts.reductions.reduced.setdefault(node, set()).update(result.data)
            self.facts.reductions.reduced_through.setdefault(node, set()).add(path)
            current_batch.reduced(self, node, result.data)
            if self.frames_forward() and not self.collating and not self.no_grad:
                self.facts.forwards.gathered_in_forward.setdefault(node, self.site(node))
            if definition_sites.meets_whole(result):
                self.facts.reductions.half_gathered.add(node)
            if any(isinstance(a, Data) and a.reduced for a in result.atoms):
                self.facts.reductions.half_reduced.add(node)
            self._take_part(result)
        else:
            self.facts.reductions.reduced_replicated.setdefault(node, self.site(node))
            known = any(
                isinstance(a, (Data, Number, ReplicatedTensor))
                or definition_sites.may_be_a_replicated_tensor(a)
                for a in result.atoms
            )
            known &= not any(frame.against_default for frame in self.frames)
            if known and self.meets_split_batches():
                self.facts.reductions.replicated_through.setdefault(node, set()).add(path)
        reduced = self._with_whole_parts(node, definition_sites.reduced(result, node))
        if result.data or reduced.atoms != result.atoms:
            self.effective.add(node)
        return reduced

    def _take_part(self, reduced: Value) -> None:
        """Let loops have as many rounds on each rank as on the others, which reduce in each."""
        if any(data.placement is not Placement.COUNT for data in reduced.data):
            for through in self.gone_through:
                random_numbers.ask_for_all(self, through)

    def _with_whole_parts(self, node: cst.BaseExpression, result: Value) -> Value:
        """What a reduction gives of tuples: lists and dictionaries in them are whole as well."""
        tuples = (
            Tup(tuple(self._whole_part(node, item) for item in a.items)) if type(a) is Tup else a
            for a in result.atoms
        )
        return value(*tuples)

    def _whole_part(self, node: cst.BaseExpression, part: Value) -> Value:
        atoms: list[Atom] = []
        for atom in part.atoms:
            if isinstance(atom, Instance) and atom.kind in ("list", "dict"):
                local = any(True for _ in local_data(value(atom)))
                atom = self._reduced_container(node, atom) if local else atom
            atoms.append(atom)
        return value(*atoms)

    def _reduced_container(self, node: cst.BaseExpression, container: Instance) -> Instance:
        made = self.instance(node, self.module, container.kind)
        for key, one in list(container.attributes.items()):
            self.put(made, key, definition_sites.reduced(one, node))
        return made

    def call(
        self,
        node: cst.BaseExpression,
        callee: Value,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """Call anything."""
        return calls.call(self, node, callee, args, dict(kwargs))

    def call_layer(
        self,
        node: cst.BaseExpression,
        layer: Instance,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """What a layer makes of these arguments."""
        return calls.call_layer(self, node, layer, args, dict(kwargs))

    def call_forward(
        self, node: cst.BaseExpression, function: Function, args: list[Value]
    ) -> Value:
        """What a function that is a part of a model's forward makes of these arguments."""
        site = self.site(node)
        return calls.call_function(self, function, args, {}, None, site, forward=True)

    def iterate(self, node: cst.BaseExpression, iterable: Value) -> Value:
        """What ``for x in iterable`` binds."""
        return elements.iterate(self, node, iterable)

    def collected(self, node: cst.BaseExpression, iterable: Value) -> Value:
        """What a collection holds that is made of all that an iterable gives."""
        return elements.collected(self, node, iterable)

    def attribute_of(self, node: cst.BaseExpression, atom: Atom, name: str) -> Value:
        """What ``atom.name`` is."""
        return attributes.attribute_of(self, node, atom, name)

    def as_dictionary(self, node: cst.BaseExpression, atom: Instance) -> Value:
        """The attributes of an object that holds something of a batch, by name."""
        return attributes.as_dictionary(self, node, atom)

    def defined_in(self, node: cst.BaseExpression, module: Namespace) -> Instance:
        """The classes and functions that a module of the project has, as a dictionary."""
        return attributes.defined(self, node, module)

    def module_named(self, full: str) -> Value:
        """The module of that name: of the project, or of a library."""
        return imports.module(self, full)

    def is_model(self, instance: Instance) -> bool:
        """Whether an object is an ``nn.Module``."""
        return object_kinds.is_model(instance)

    def note_set_around(self, name: str, new: Value) -> None:
        """A function has set a name of a function around it, or of the module."""
        carried_values.set_around(self, name, new)

    def keeps_from_batch(self, container: Instance, node: cst.BaseExpression, new: Value) -> Value:
        """What a container of longer life than the batch takes must be global, or is demanded."""
        return elements.kept(self, node, new) if self.is_older(container) else new


def has_no_rows(one: Value) -> bool:
    """Whether this is a value of the script's that has nothing to do with batches."""
    return bool(one.atoms) and all(isinstance(a, (Number, ReplicatedTensor)) for a in one.atoms)


def has_own_rows(one: Value) -> bool:
    """Whether this may be a rank's own rows already."""
    return any(d.placement is Placement.SHARD and not d.opaque for d in one.data)


def own_rows(whole: Value, loaders: frozenset[Instance]) -> Value:
    """This rank's rows of a whole batch, or of each part of a tuple of them."""
    mine = value(Data(Placement.SHARD, loaders))
    parts = [a for a in whole.atoms if isinstance(a, Tup)] if len(whole.atoms) == 1 else []
    return value(Tup(tuple(mine for _ in parts[0].items))) if parts else mine


def _is_forward(function: Function) -> bool:
    return isinstance(function.node, cst.FunctionDef) and function.node.name.value == "forward"


@roomy
def interpret(
    project: Project,
    choices: Choices | None = None,
    *,
    follow: bool = True,
    brief: bool = False,
) -> Facts:
    """The facts of a project under some choices; of each function alone without ``follow``.

    Those that are ``brief`` tell fewer calls of a function apart, and may be those of the passes
    before one that was cut short, which they say (``cut_short``).

    Raises:
        Exhausted: It takes more steps than the project's budget has left.
        RecursionError: Its calls or expressions are nested too deeply.
    """
    try:
        return Interpreter(project, choices, follow=follow, brief=brief).run()
    except Exhausted as error:
        _locate(project, error)
        raise


def _locate(project: Project, error: Exhausted) -> None:
    """Note where the function is in which most of the steps went."""
    module = project.owner(error.function) if error.function is not None else None
    error.path = (module or project.entry).path
    error.line = module.line(error.function) if module and error.function else 1
