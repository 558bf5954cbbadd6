"""What the rounds of a training change in place and a later round may read.

Whatever a mutation in the code of a loop may reach, by way of aliases, belongs to the snapshots if
it was made before the loop. What has no name there, or no plain form, is a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.aliases import Aliases, Variable
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.planning.resumed_loops import (
    FILLING,
    ResumedLoop,
    Resumption,
    attribute_targets,
    bound_names,
    depth,
    parameter_names,
    reached,
    targets_of,
)
from ddpify.understanding.libraries.object_kinds import is_loader, is_model
from ddpify.understanding.libraries.random_numbers import DRAWING
from ddpify.understanding.liveness import assigned
from ddpify.understanding.operators.in_place import is_in_place
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import names_of, parameters
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.values import (
    Class,
    Const,
    Device,
    Instance,
    QualifiedName,
    Value,
    deep_atoms,
)

_LOADING = frozenset({"load_state_dict", "update_parameters", "fill", "resize", "partial_fit"})
_MOVING = frozenset({"send", "throw", "__next__", "put", "put_nowait", "get_nowait"})
_ITERATORS = ("iter", "map", "filter", "zip", "enumerate", "reversed")
_CHANGED_BY_NAME = ("out", "generator")  # arguments that a call writes to, or draws from
_FIRST_CHANGED = ("builtins.next", "heapq.", "random.shuffle", "numpy.random.shuffle",
                  "numpy.copyto", "numpy.put", "builtins.setattr")  # fmt: skip


def hold_changed_state(plan: Plan, found: Resumption) -> None:
    """Give the loops what their rounds change in place, beside models and optimizers.

    Raises:
        Refusal: The state cannot be held; it says what is changed, and where.
    """
    modules = list(dict.fromkeys(m for _, m in _places(plan, found)))
    aliases = Aliases(plan, modules)
    loops = sorted(found.loops.values(), key=lambda one: depth(plan, found, one))
    for one in loops:
        _Changes(plan, aliases, one, modules).hold(loops)


def _places(plan: Plan, found: Resumption) -> Iterator[tuple[cst.CSTNode, ModuleFile]]:
    for one in found.loops.values():
        yield one.node, one.module
    for sites in plan.facts.callers.values():
        for site in sites:
            yield site.node, site.module


class _Changes:
    """The variables that the rounds of one loop change in place."""

    def __init__(
        self,
        plan: Plan,
        aliases: Aliases,
        loop: ResumedLoop,
        modules: list[ModuleFile],
    ) -> None:
        self.plan = plan
        self.aliases = aliases
        self.modules = modules
        self.nodes = list(reached(plan, loop))
        self.loop = loop
        self._read = dict(self._reads())
        self._rebound = set(self._assigned_attributes())
        self.names = {node: n for n, nodes in plan.facts.library_calls.items() for node in nodes}

    def hold(self, loops: list[ResumedLoop]) -> None:
        """Name each changed variable in the first loop whose function can read it."""
        self._hold_outer(loops)
        changed = set(self._changed())
        self._refuse_defaults(changed)
        counted = {n for one in loops for n in assigned(one.node.target)}
        held = [text for one in loops for text in (*one.objects, *one.values)]
        for text, variable, node in self._readable(self.loop):
            if self.aliases.of(variable) in changed and self._is_state(node):
                self._refuse_iterators(self.loop.module, variable)
                if text not in counted and {text, text.split(".")[0]}.isdisjoint(held):
                    self.loop.objects.append(text)
                    held.append(text)

    def _hold_outer(self, loops: list[ResumedLoop]) -> None:
        """Outer variables that functions assign: values of the loops that stand where they do."""
        for node in self.nodes:
            module = self._module(node)
            if module is None or not isinstance(node, (cst.Global, cst.Nonlocal)):
                continue
            for name in [item.name.value for item in node.names]:
                home = self._home(module, node, name)
                here = [o for o in loops if o.module is module and module.function(o.node) is home]
                if not here:
                    kind = "a global" if isinstance(node, cst.Global) else "an outer"
                    raise Refusal(
                        module, node, f"--resume: {name} is {kind} variable that a function of "
                        "the training assigns", "keep it in an object that the loop's function has",
                    )  # fmt: skip
                for one in here:
                    if name not in one.values:
                        one.values.append(name)

    @staticmethod
    def _home(
        module: ModuleFile, node: cst.Global | cst.Nonlocal, name: str
    ) -> cst.FunctionDef | None:
        """The function whose variable an outer name is; None for the module."""
        home = module.function(node) if isinstance(node, cst.Nonlocal) else None
        while home is not None:
            home = module.function(home)
            if home is None or name in {n.value for n in bound_names(home)} | parameter_names(home):
                break
        return home

    def _reads(self) -> Iterator[tuple[Variable, Value]]:
        for module in self.modules:
            for node in module.structure.all(cst.Name):
                held = self.plan.facts.values.get(node)
                if held is not None and held.atoms:
                    yield self.aliases.variable(module, node), held

    def _changed(self) -> Iterator[Variable]:
        for node in self.nodes:
            module = self._module(node)
            if module is None:
                continue
            for expression in self._mutated(module, node):
                self._refuse_definitions(module, expression, node)
                for variable in self.aliases.shared(module, expression):
                    yield self.aliases.of(variable)

    def _module(self, node: cst.CSTNode) -> ModuleFile | None:
        return next((m for m in self.modules if node in m.structure.order), None)

    def _mutated(self, module: ModuleFile, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The expressions whose objects a node changes."""
        if isinstance(node, cst.Call):
            yield from self._mutated_by_call(node)
        elif isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            yield node.target
        elif isinstance(node, cst.Del):
            yield from (t.value for t in names_of(node.target) if isinstance(t, cst.Subscript))
        elif isinstance(node, (cst.For, cst.CompFor)) and self._is_iterator(module, node.iter):
            yield node.iter
        for target in targets_of(node):
            for one in names_of(target):
                if isinstance(one, cst.Subscript):
                    yield one.value
                elif isinstance(one, cst.Attribute):
                    yield one if self._has_class(one.value) else one.value

    def _mutated_by_call(self, node: cst.Call) -> Iterator[cst.BaseExpression]:
        name = self.names.get(node) or (
            f"builtins.{node.func.value}" if isinstance(node.func, cst.Name) else ""
        )
        arguments = [arg.value for arg in node.args]
        if isinstance(node.func, cst.Attribute):
            method = node.func.attr.value
            if is_in_place(method) or method in FILLING | _LOADING | DRAWING | _MOVING:
                yield node.func.value
            if method == "shuffle":
                yield from arguments
        if name.startswith(_FIRST_CHANGED):
            yield from arguments[:1]
        elif is_in_place(name):
            yield from arguments
        yield from (
            a.value
            for a in node.args
            if a.keyword is not None and a.keyword.value in _CHANGED_BY_NAME
        )
        held = self.plan.facts.values.get(node.func, Value())
        if any(map(_is_layer, held.atoms)):
            yield node.func

    def _has_class(self, node: cst.BaseExpression) -> bool:
        held = self.plan.facts.values.get(node, Value())
        return any(isinstance(a, Instance) and isinstance(a.type, Class) for a in held.atoms)

    def _readable(self, loop: ResumedLoop) -> Iterator[tuple[str, Variable, cst.CSTNode]]:
        """What the function of a loop can name before it starts: as code, variable and node."""
        module = loop.module
        function = module.function(loop.node)
        local: set[str] = set()
        if function is not None:
            local = {n.value for n in bound_names(function)} | parameter_names(function)
            yield from self._named(loop, function, set())
        yield from self._named(loop, module.tree, local)

    def _named(
        self, loop: ResumedLoop, scope: cst.CSTNode, hidden: set[str]
    ) -> Iterator[tuple[str, Variable, cst.CSTNode]]:
        module, order = loop.module, loop.module.structure.order
        home = scope if isinstance(scope, cst.FunctionDef) else None
        imports = (n for n in walk(scope) if isinstance(n, (cst.Import, cst.ImportFrom)))
        imported = {n for node in imports for n in walk(node)}
        names: dict[str, cst.Name] = {}
        for node in bound_names(scope):
            before = order[node] < order[loop.node] and node not in imported
            if before and module.function(node) is home:
                names.setdefault(node.value, node)
        if home is not None:
            for param in parameters(home):
                names[param.name.value] = param.name
        for name, node in names.items():
            if name not in hidden:
                yield name, (scope, name), node
                yield from self._attributes(name, node)

    def _attributes(self, name: str, node: cst.Name) -> Iterator[tuple[str, Variable, cst.CSTNode]]:
        """The attributes of the script's own objects that a name stands for, or holds."""
        held = self._values_of(node)
        for atom, kind in _own_objects(held):
            for attribute, value in atom.attributes.items():
                own = (kind.node, attribute)
                inside = atom in held.atoms and not self._is_rebound(own, name)
                text = f"{name}.{attribute}" if inside else name
                number = value.atoms and all(isinstance(a, Const) for a in value.atoms)
                if attribute.isidentifier() and not (number and inside):
                    yield text, own, node
                if attribute.isidentifier():
                    yield from ((text, below, node) for below in _below(value, {atom}))

    def _is_rebound(self, own: Variable, name: str) -> bool:
        """Whether a round gives the attribute another object: its owner has to be held, then."""
        return own in self._rebound and f"{name}.{own[1]}" not in self.loop.values

    def _assigned_attributes(self) -> Iterator[Variable]:
        for node in self.nodes:
            for target in attribute_targets(node):
                for atom in self.plan.facts.values.get(target.value, Value()).atoms:
                    if isinstance(atom, Instance) and isinstance(atom.type, Class):
                        yield atom.type.node, target.attr.value

    def _values_of(self, node: cst.CSTNode) -> Value:
        """What a node stands for; a name that is bound: what it is where it is read."""
        held = self.plan.facts.values.get(node)
        module = self._module(node)
        if held is not None or not isinstance(node, cst.Name) or module is None:
            return held or Value()
        variable = self.aliases.variable(module, node)
        return self._read.get(variable, Value())

    def _is_state(self, node: cst.CSTNode) -> bool:
        atoms = self._values_of(node).atoms
        skipped = [
            isinstance(a, (Const, QualifiedName, Device))
            or (isinstance(a, Instance) and is_loader(a))
            for a in atoms
        ]
        return not (skipped and all(skipped))

    def _is_iterator(self, module: ModuleFile, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Name):
            return False
        return self._iterator_call(module, self.aliases.variable(module, node)) is not None

    def _iterator_call(self, module: ModuleFile, variable: Variable) -> cst.CSTNode | None:
        """The expression that makes a variable's iterator; None where it is none."""
        for node in walk(variable[0]):
            value = node.value if isinstance(node, cst.Assign) else None
            if value is None or variable[1] not in {
                n.value for t in targets_of(node) for n in names_of(t) if isinstance(n, cst.Name)
            }:
                continue
            if isinstance(value, cst.GeneratorExp):
                return value
            if isinstance(value, cst.Call):
                functions = called(self.plan.facts, value)
                if any(isinstance(n, cst.Yield) for one in functions for n in walk(one.node)):
                    return value
                name = self.names.get(value) or getattr(value.func, "value", "")
                made_by = name.removeprefix("builtins.") if isinstance(name, str) else ""
                if made_by in _ITERATORS or made_by.startswith("itertools."):
                    return value
        return None

    def _refuse_defaults(self, changed: set[Variable]) -> None:
        """A default value that a function changes is kept by the function alone."""
        for node in self.nodes:
            if not isinstance(node, cst.FunctionDef):
                continue
            for param in (*node.params.params, *node.params.kwonly_params):
                made = isinstance(param.default, (cst.List, cst.Dict, cst.Set, cst.Call))
                variable = self.aliases.of((node, param.name.value))
                module = self._module(node)
                if made and variable in changed and module is not None:
                    raise Refusal(
                        module, param, f"--resume: {param.name.value} is a default value that the "
                        "training changes", "give it to each call",
                    )  # fmt: skip

    def _refuse_iterators(self, module: ModuleFile, variable: Variable) -> None:
        made = self._iterator_call(module, variable)
        if made is not None:
            raise Refusal(
                module, made, f"--resume: {variable[1]} is an iterator that the training moves on, "
                "and its position cannot be stored", "use a counter and index a list with it",
            )  # fmt: skip

    def _refuse_definitions(
        self, module: ModuleFile, node: cst.BaseExpression, place: cst.CSTNode
    ) -> None:
        """An attribute of a function or of a class is in no object that could be held."""
        owner = node.value if isinstance(node, cst.Attribute) else node
        atoms = self._values_of(owner).atoms
        defined = any(type(a).__name__ in _DEFINED for a in atoms) or _is_class_of(owner)
        if isinstance(place, cst.Call) or not defined:
            return
        raise Refusal(
            module, place, "--resume: the training changes an attribute of a function or class, "
            "which a snapshot cannot hold", "keep it in a variable or in an object",
        )  # fmt: skip


_DEFINED = ("Function", "Class")


def _is_class_of(node: cst.BaseExpression) -> bool:
    """Whether code asks for an object's class: ``type(x)`` or ``x.__class__``."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "__class__"
    return isinstance(node, cst.Call) and getattr(node.func, "value", "") == "type"


def _own_objects(value: Value) -> Iterator[tuple[Instance, Class]]:
    """The objects of the script's classes, models left out, that a value is or holds."""
    for atom in deep_atoms(value):
        if isinstance(atom, Instance) and isinstance(atom.type, Class) and not is_model(atom):
            yield atom, atom.type


def _below(value: Value, seen: set[Instance]) -> Iterator[Variable]:
    """The attributes of the script's objects that a value is or holds, at any depth."""
    for atom, kind in _own_objects(value):
        if atom not in seen:
            seen.add(atom)
            for attribute, held in atom.attributes.items():
                yield kind.node, attribute
                yield from _below(held, seen)


def _is_layer(atom: object) -> bool:
    """Whether calling a value may change buffers: those of a normalisation, or counters."""
    return isinstance(atom, Instance) and is_model(atom)
