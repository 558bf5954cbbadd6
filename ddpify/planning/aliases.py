"""Which variables of a project may refer to the same object, by dataflow without order.

The analysis joins the variables of an assignment (Steensgaard's alias analysis): what one of them
changes in place, all of them may see changed. An attribute of the script's own objects is one
variable for each class.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.planning.resumed_loops import FILLING, bound_names, parameter_names, targets_of
from ddpify.understanding.libraries.object_kinds import is_loader, is_model
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, names_of
from ddpify.understanding.values import (
    Atom,
    Class,
    Const,
    Device,
    Function,
    Instance,
    Namespace,
    Number,
    QualifiedName,
    Value,
)

Variable = tuple[cst.CSTNode, str]
"""The function, class or module that a variable belongs to, and its name."""

_UNCHANGING = (Const, QualifiedName, Class, Function, Namespace, Device)

_FRESH = frozenset(
    "clone item tolist sum mean max min argmax argmin std var norm add sub mul div matmul mm pow "
    "exp log sqrt abs eq ne lt gt le ge softmax float_power keys format join split strip copy "
    "count index numel size dim".split()
)
_SHARING = frozenset(
    "builtins.zip builtins.enumerate builtins.list builtins.tuple builtins.dict builtins.set "
    "builtins.iter builtins.reversed builtins.sorted builtins.map builtins.filter builtins.next "
    "builtins.getattr builtins.vars".split()
)
_COPYING = ("torch.", "numpy.", "copy.deepcopy", "math.", "time.", "random.")
_VIEWS = ("torch.from_numpy", "torch.as_tensor", "torch.asarray", "numpy.asarray", "torch.nn.",
          "numpy.ravel", "numpy.reshape", "torch.reshape", "torch.flatten")  # fmt: skip


class Aliases:
    """The classes of variables that may share an object."""

    def __init__(self, plan: Plan, modules: list[ModuleFile]) -> None:
        self.plan = plan
        self.modules = {module.tree: module for module in modules}
        self._above: dict[Variable, Variable] = {}
        self._bound: dict[cst.CSTNode, set[str]] = {}
        self._names = _called_names(plan)
        self._called: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for function, sites in plan.facts.callers.items():
            for site in sites:
                self._called.setdefault(site.node, []).append(function)
        for module in modules:
            for node in walk(module.tree):
                self._join_statement(module, node)
        for function, sites in plan.facts.callers.items():
            for site in sites:
                self._join_call(function, site.module, site.node)

    def of(self, variable: Variable) -> Variable:
        """The representative of a variable's class."""
        while variable in self._above:
            variable = self._above[variable]
        return variable

    def shared(self, module: ModuleFile, node: cst.BaseExpression) -> Iterator[Variable]:
        """The variables whose object, or a part of it, an expression may stand for."""
        held = self.plan.facts.values.get(node)
        atoms = held.atoms if held is not None else frozenset()
        if atoms and all(map(_never_changes, atoms)):
            return
        if isinstance(node, cst.Name):
            yield self.variable(module, node)
        elif isinstance(node, cst.Attribute):
            yield from self._of_attribute(module, node)
        elif isinstance(node, cst.Subscript):
            yield from self.shared(module, node.value)
        elif isinstance(node, cst.Call):
            yield from self._of_call(module, node)
        else:
            for part in _parts(node):
                yield from self.shared(module, part)

    def variable(self, module: ModuleFile, name: cst.Name) -> Variable:
        """The variable that a name stands for where it is."""
        function = module.function(name)
        while function is not None:
            if name.value in self._locals(function):
                return function, name.value
            function = module.function(function)
        return module.tree, name.value

    def _locals(self, function: cst.FunctionDef) -> set[str]:
        if function not in self._bound:
            inside = [n for n in walk(function) if isinstance(n, (cst.Global, cst.Nonlocal))]
            outer = {item.name.value for node in inside for item in node.names}
            loops = [n for n in walk(function) if isinstance(n, cst.CompFor)]
            bound = {n.value for n in bound_names(function)} | parameter_names(function)
            bound |= {n.value for c in loops for n in names_of(c.target) if isinstance(n, cst.Name)}
            self._bound[function] = bound - outer
        return self._bound[function]

    def _of_attribute(self, module: ModuleFile, node: cst.Attribute) -> Iterator[Variable]:
        owner = self.plan.facts.values.get(node.value)
        classes = {
            a.type.node
            for a in (owner.atoms if owner is not None else ())
            if isinstance(a, Instance) and isinstance(a.type, Class) and not is_model(a)
        }
        if classes:
            yield from ((one, node.attr.value) for one in classes)
        else:
            yield from self.shared(module, node.value)

    def _of_call(self, module: ModuleFile, node: cst.Call) -> Iterator[Variable]:
        held = self.plan.facts.values.get(node)
        if held is not None and any(isinstance(a, Instance) and is_loader(a) for a in held.atoms):
            return
        called = self.plan.facts.values.get(node.func)
        if called is not None and any(
            isinstance(a, Instance) and is_model(a) for a in called.atoms
        ):
            return
        receiver = node.func.value if isinstance(node.func, cst.Attribute) else None
        if receiver is not None and not self._is_library(receiver):
            if isinstance(node.func, cst.Attribute) and node.func.attr.value not in _FRESH:
                yield from self.shared(module, receiver)
            if node not in self._called:
                return
        if node in self._called:
            yield from ((function, "return") for function in self._called[node])
            return
        name = self._names.get(node) or f"builtins.{code_of(node.func)}"
        copies = name.startswith(_COPYING) and not name.startswith(_VIEWS)
        if not copies and (name in _SHARING or not name.startswith("builtins.")):
            for arg in node.args:
                yield from self.shared(module, arg.value)

    def _is_library(self, node: cst.BaseExpression) -> bool:
        return any(
            isinstance(a, QualifiedName) for a in self.plan.facts.values.get(node, Value()).atoms
        )

    def _join_statement(self, module: ModuleFile, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in FILLING:
                given = (v for arg in node.args for v in self.shared(module, arg.value))
                self._join([*self.shared(module, node.func.value), *given])
            return
        value = node.value if isinstance(node, (cst.Assign, cst.AnnAssign, cst.NamedExpr)) else None
        if isinstance(node, (cst.For, cst.CompFor)):
            value = node.iter
        if value is None:
            return
        found = list(self.shared(module, value))
        for target in targets_of(node):
            for one in names_of(target):
                held = one.value if isinstance(one, (cst.StarredElement, cst.Subscript)) else one
                self._join([*self.shared(module, held), *found])

    def _join_call(self, function: cst.CSTNode, module: ModuleFile, call: cst.CSTNode) -> None:
        home = next((m for m in self.modules.values() if function in m.structure.order), None)
        if home is None or not isinstance(function, cst.FunctionDef):
            return
        if not isinstance(call, cst.Call):
            return
        for name, value in _bound_arguments(home, function, call):
            self._join([(function, name), *self.shared(module, value)])
        for node in walk(function):
            if isinstance(node, (cst.Return, cst.Yield)) and isinstance(
                node.value, cst.BaseExpression
            ):
                self._join([*self.shared(home, node.value), (function, "return")])

    def _join(self, variables: list[Variable]) -> None:
        tops = list(dict.fromkeys(self.of(one) for one in variables))
        for one in tops[1:]:
            self._above[one] = tops[0]


def _never_changes(atom: Atom) -> bool:
    """Whether nothing that is done with a value changes it: numbers of the command line, too."""
    option = isinstance(atom, Number) and atom.setting is not None
    return option or isinstance(atom, _UNCHANGING)


def _called_names(plan: Plan) -> dict[cst.CSTNode, str]:
    return {node: name for name, nodes in plan.facts.library_calls.items() for node in nodes}


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of an expression that its value may be, or may hold."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set, cst.Dict)):
        yield from (element.value for element in node.elements)
    elif isinstance(node, cst.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, cst.BooleanOperation):
        yield from (node.left, node.right)
    elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
        yield node.elt
    elif isinstance(node, (cst.DictComp, cst.NamedExpr, cst.StarredElement)):
        yield node.value


def _bound_arguments(
    module: ModuleFile, function: cst.FunctionDef, call: cst.Call
) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The parameters of a function, each with what a call gives it."""
    params = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
    method = module.structure.class_of(function) is not None
    for at, arg in enumerate(call.args):
        if arg.keyword is not None:
            yield arg.keyword.value, arg.value
        elif at + method < len(params):
            yield params[at + method], arg.value
