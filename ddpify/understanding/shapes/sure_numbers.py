"""What surely is a number, and no tensor: as far as the code that makes it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.structure import walk, walk_here
from ddpify.understanding.syntax import UNPACKED, argument, code_of, dotted, parameters
from ddpify.understanding.values import (
    CONTAINERS,
    Atom,
    Class,
    Const,
    Function,
    Instance,
    Method,
    Number,
    QualifiedName,
    Value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_GIVING_NUMBERS = ("float", "int", "len", "round", "bool", "ord")
_OF_NUMBERS = ("abs", "max", "min", "pow")
_LIBRARIES = ("math.", "time.")
# Python's draws of a number: ``choice`` and ``sample`` give what they are given.
_OF_RANDOM = frozenset(
    "random.random random.uniform random.randint random.randrange random.getrandbits random.gauss"
    " random.triangular random.betavariate random.expovariate random.gammavariate"
    " random.lognormvariate random.normalvariate random.vonmisesvariate random.paretovariate"
    " random.weibullvariate random.binomialvariate".split()
)
_METHODS = frozenset("item get_last_lr numel dim".split())
# NumPy's draws, with how many arguments stand before the size: without one they give a number.
_DRAWS = {
    "random": 0, "rand": 0, "randn": 0, "standard_normal": 0, "exponential": 1, "poisson": 1,
    "beta": 2, "gamma": 2, "uniform": 2, "normal": 2, "randint": 2, "integers": 2, "triangular": 3,
}  # fmt: skip
_TYPES = ("float", "int", "bool")
_OF_TEXT = (
    "json.load json.loads yaml.load yaml.safe_load toml.load toml.loads tomllib.load tomllib.loads"
    " omegaconf.OmegaConf.load".split()
)
# Libraries whose objects, or what they read out of a file, may have tensors for attributes.
_OF_TENSORS = ("torch", "numpy", "pickle", "dill", "joblib", "h5py", "pandas", "scipy", "builtins")
_DEEPEST = 10  # expressions that lead to what makes a number


def is_number(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether an expression surely gives a number."""
    return _Tracing(run).is_number(node, _DEEPEST)


class _Tracing:
    """Follows names and calls to what makes a number."""

    def __init__(self, run: RunState) -> None:
        self.run = run
        # What a loop computes of itself is a number if all else is.
        self.open: set[tuple[cst.CSTNode, str]] = set()

    def is_number(self, node: cst.BaseExpression, left: int) -> bool:
        """Whether an expression surely gives a number, by so many further expressions at most."""
        if isinstance(node, (cst.Integer, cst.Float)) or self._is_shown(self.run.seen(node)):
            return True
        parts = _made_of(node)
        if parts or not left:
            return bool(left) and all(self.is_number(one, left - 1) for one in parts)
        if isinstance(node, cst.Call):
            return self._is_of_call(node, left - 1)
        if isinstance(node, cst.Name):
            return self._is_named(node, left - 1)
        if isinstance(node, cst.Attribute):
            return self._is_setting(node)
        return isinstance(node, cst.Subscript) and self._is_item(node, left - 1)

    def _is_item(self, node: cst.Subscript, left: int) -> bool:
        """Whether this is an item of numbers, or an option of a group of an optimizer's."""
        if code_of(node.value).rpartition(".")[2].startswith("param_groups["):
            return code_of(node.slice[0].slice) not in ('"params"', "'params'")
        return self.is_number(node.value, left)

    def _is_setting(self, node: cst.Attribute) -> bool:
        """Whether nothing in sight sets an attribute, and its object is none that holds tensors.

        So it is with ``cfg.loss.alpha`` out of a file of text, or of a module that is not seen.
        """
        held, owners = self.run.seen(node), self.run.seen(node.value)
        if not all(isinstance(one, (Method, QualifiedName)) for one in held.atoms):
            return False
        if isinstance(node.value, cst.Attribute) and not any(map(_is_object, owners.atoms)):
            return self._is_setting(node.value)
        return bool(owners.atoms) and all(map(_holds_settings, owners.atoms))

    def _is_shown(self, held: Value) -> bool:
        """Whether all that something may be is a literal, an option, or out of a file of text.

        That holds no tensors: what is not made one is no operand but a number.
        """
        return bool(held.atoms) and all(
            (isinstance(one, Const) and isinstance(one.value, (int, float)))
            or (isinstance(one, Number) and (one.setting is not None or one.ndim == 0))
            or (isinstance(one, Number) and self._is_of_text(one.loaded))
            or (isinstance(one, Instance) and one.kind in _OF_TEXT)
            for one in held.atoms
        )

    def _is_of_text(self, loaded: cst.CSTNode | None) -> bool:
        while isinstance(loaded, cst.Subscript):
            loaded = loaded.value
        held = self.run.seen(loaded) if isinstance(loaded, cst.BaseExpression) else None
        return held is not None and any(one.kind in _OF_TEXT for one in held.of(Instance))

    def _is_of_call(self, node: cst.Call, left: int) -> bool:
        called, run = self.run.seen(node.func), self.run
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS:
            return True
        names = [one.name for one in called.of(QualifiedName)]
        if run.calls_builtin(node, *_GIVING_NUMBERS) or _draws_one(node, names):
            return True
        if any(name.startswith(_LIBRARIES) or name in _OF_RANDOM for name in names):
            return True
        several = len(node.args) > 1 or run.calls_builtin(node, "abs")
        if several and run.calls_builtin(node, *_OF_NUMBERS):
            return all(self.is_number(one.value, left) for one in node.args)
        functions = list(called.of(Function))
        return bool(functions) and all(self._gives_one(one, left) for one in functions)

    def _gives_one(self, function: Function, left: int) -> bool:
        if function.module is not self.run.module:
            return False
        if isinstance(function.node, cst.Lambda):
            return self.is_number(function.node.body, left)
        returned = [one for one in walk_here(function.node.body) if isinstance(one, cst.Return)]
        given = [one.value for one in returned if one.value is not None]
        return bool(given) and all(self.is_number(one, left) for one in given)

    def _is_named(self, node: cst.Name, left: int) -> bool:
        """Whether all that a name is given is a number."""
        structure = self.run.module.structure
        function = structure.function(node)
        for around in (function, structure.tree):
            if around is None:
                continue
            if (around, node.value) in self.open:
                return True
            self.open.add((around, node.value))
            given = list(self._given(node, around))
            counted = list(self._counted(node, around))
            if given or counted:
                known = (one is not None and self.is_number(one, left) for one in given)
                return all(counted) and all(known)
            if around is function and _takes(function, node.value):
                return self._is_given_numbers(function, node.value, left)
        return False

    def _given(self, node: cst.Name, around: cst.CSTNode) -> Iterator[cst.BaseExpression | None]:
        """What a name is given, or what is added to it."""
        structure = self.run.module.structure
        yield from (one for _, one in structure.given(node, around))
        changes: list[cst.AugAssign | cst.NamedExpr] = [
            *structure.inside(around, cst.AugAssign),
            *structure.inside(around, cst.NamedExpr),
        ]
        yield from (one.value for one in changes if dotted(one.target) == node.value)

    def _counted(self, node: cst.BaseExpression, around: cst.CSTNode) -> Iterator[bool]:
        """Of each loop that sets a name, whether it counts: ``for epoch in range(n)``."""
        for loop in self.run.module.structure.inside(around, cst.For):
            target: cst.BaseExpression = loop.target
            if isinstance(target, UNPACKED) and self.run.calls_builtin(loop.iter, "enumerate"):
                target = target.elements[0].value
            if dotted(target) == dotted(node):
                yield self.run.calls_builtin(loop.iter, "range", "enumerate")
            elif any(name == dotted(node) for name in target_names(loop.target)):
                yield False

    def _is_given_numbers(self, function: cst.FunctionDef, name: str, left: int) -> bool:
        """Whether a function says that a parameter is a number, or all of its calls give one."""
        params = parameters(function)
        at = next(i for i, one in enumerate(params) if one.name.value == name)
        told = params[at].annotation
        if told is not None and dotted(told.annotation) in _TYPES:
            return True
        sites = self.run.facts.callers.get(function, set())
        if params[0].name.value == "self" or not all(s.module is self.run.module for s in sites):
            return False
        calls = [one.node for one in sites if isinstance(one.node, cst.Call)]
        given = [argument(call, name, at) for call in calls]
        plain = bool(calls) and all(one is not None for one in given)
        return plain and all(one and self.is_number(one.value, left) for one in given)


def _is_object(held: Atom) -> bool:
    """Whether this is more than an attribute of which nothing is known."""
    return not isinstance(held, Method)


def _holds_settings(owner: Atom) -> bool:
    """Whether an object, or a module, has no tensors by names that nothing in sight sets."""
    if isinstance(owner, QualifiedName):
        return owner.name.partition(".")[0] not in _OF_TENSORS
    if not isinstance(owner, Instance):
        return False
    if isinstance(owner.type, Class):
        bases = [one.rpartition(".")[2] for one in owner.type.library_bases()]
        return "dict" in bases or _reads_text(owner.type)
    return owner.type.partition(".")[0] not in _OF_TENSORS and owner.type not in CONTAINERS


def _reads_text(made: Class) -> bool:
    """Whether a class takes attributes out of a file of text, by whatever names that gives them."""
    calls = [code_of(one.func) for one in walk(made.node.body) if isinstance(one, cst.Call)]
    updated = any(one.endswith("__dict__.update") for one in calls)
    return updated and any(one in _OF_TEXT for one in calls)


def _made_of(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What an operator computes a number of."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.UnaryOperation):
        return [node.expression]
    if isinstance(node, cst.NamedExpr):
        return [node.value]
    return [node.body, node.orelse] if isinstance(node, cst.IfExp) else []


def _draws_one(node: cst.Call, names: list[str]) -> bool:
    """Whether this draws a single number, from NumPy's generator or from one of the script's."""
    short = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    numpys = not names or any(name.startswith("numpy.random.") for name in names)
    named = any(one.keyword is not None and one.keyword.value == "size" for one in node.args)
    return numpys and not named and len(node.args) <= _DRAWS.get(short, -1)


def _takes(function: cst.CSTNode | None, name: str) -> bool:
    if not isinstance(function, cst.FunctionDef):
        return False
    return any(one.name.value == name for one in parameters(function))
