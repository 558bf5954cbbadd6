"""The loops of a training that a restart takes up again, and the code that they reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.records import record
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_loader, is_model
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import children, walk
from ddpify.understanding.syntax import names_of
from ddpify.understanding.values import Class, Function, Instance, Value

CONTAINERS = ("list", "dict", "set", "collections.defaultdict", "collections.deque",
              "collections.OrderedDict", "collections.Counter")  # fmt: skip
FILLING = frozenset(
    "append appendleft extend insert update add pop popleft clear remove setdefault discard "
    "sort reverse".split()
)


_CALLED = frozenset(f"__{name}__" for name in (
    "init", "new", "post_init", "call", "getitem", "len", "iter", "next", "getstate", "setstate",
    "del"))  # fmt: skip
"""Special methods whose calls are seen, or that belong to the making of objects and batches."""


@dataclass(slots=True)
class ResumedLoop:
    """A loop to take up again: what to give resumable(), and the values to keep."""

    node: cst.For
    module: ModuleFile
    takes_batches: bool
    objects: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


@record
class Gap:
    """Something that a restart cannot bring back as it was, and where it is."""

    site: Site
    text: str


@dataclass(slots=True)
class Resumption:
    """The loops, from the outside in for each place that trains, and what stays open."""

    loops: dict[cst.CSTNode, ResumedLoop] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


Loops = tuple[tuple[ModuleFile, cst.For | cst.While], ...]


def chains(plan: Plan, site: Site, seen: tuple[cst.CSTNode, ...]) -> Iterator[Loops]:
    """The loops around a place, innermost first, one tuple for each way of calls to it."""
    here: Loops = tuple((site.module, loop) for loop in site.module.structure.loops(site.node))
    function = site.module.function(site.node)
    calls = plan.facts.callers.get(function, ()) if function is not None else ()
    further = [call for call in calls if call.node not in seen]
    if not further:
        yield here
    for call in sorted(further, key=lambda c: (str(c.module.path), c.line)):
        for above in chains(plan, call, (*seen, call.node)):
            yield here + above


def depth(plan: Plan, found: Resumption, loop: ResumedLoop) -> int:
    """How many of the loops are around one, through the calls that lead to it."""
    ways = chains(plan, Site(loop.node, loop.module), ())
    return max(sum(node in found.loops for _, node in chain) for chain in ways)


def reached(plan: Plan, loop: ResumedLoop) -> Iterator[cst.CSTNode]:
    """The nodes of a loop's body, and of all functions of the project that are called from there.

    So are hooks, wherever they were registered, and the methods behind ``with`` and operators.
    """
    calls: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for function, sites in plan.facts.callers.items():
        for site in sites:
            calls.setdefault(site.node, []).append(function)
    hooks = list(dict.fromkeys([*_hooks(plan), *_behind_syntax(plan)]))
    waiting: list[cst.CSTNode] = [loop.node.body, *hooks]
    seen: set[cst.CSTNode] = set(hooks)
    while waiting:
        for node in walk(waiting.pop()):
            yield node
            for function in calls.get(node, ()):
                if function not in seen:
                    seen.add(function)
                    waiting.append(function)


def _hooks(plan: Plan) -> Iterator[cst.CSTNode]:
    """The functions that are given to ``register_forward_hook`` and the like."""
    for module in plan.project.files:
        for call in module.structure.all(cst.Call):
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if method.startswith("register_") and method.endswith("hook"):
                for arg in call.args:
                    atoms = plan.facts.values.get(arg.value, Value()).atoms
                    yield from (a.node for a in atoms if isinstance(a, Function))


def _behind_syntax(plan: Plan) -> Iterator[cst.CSTNode]:
    """Methods that no call names, as ``__enter__``; those of data sets left out."""
    for module in plan.project.files:
        for function in module.structure.all(cst.FunctionDef):
            name = function.name.value
            special = name.startswith("__") and name.endswith("__") and name not in _CALLED
            if special and module.structure.class_of(function) is not None:
                yield function


def changed(plan: Plan, node: cst.CSTNode) -> Iterator[Instance]:
    """Containers that a node fills, and objects whose attributes it assigns."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value in FILLING:
            yield from _held(plan, node.func.value, containers=True)
    elif isinstance(node, (cst.Assign, cst.AugAssign)):
        targets = (
            [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
        )
        for target in targets:
            if isinstance(target, cst.Subscript):
                yield from _held(plan, target.value, containers=True)
        for attribute in attribute_targets(node):
            yield from _held(plan, attribute.value, containers=False)


def _held(plan: Plan, node: cst.BaseExpression, *, containers: bool) -> Iterator[Instance]:
    held = plan.facts.values.get(node)
    for atom in held.atoms if held is not None else ():
        if not isinstance(atom, Instance) or is_model(atom) or is_loader(atom):
            continue
        if atom.type in CONTAINERS if containers else isinstance(atom.type, Class):
            yield atom


def bound_names(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that code assigns, its nested functions left out."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, (cst.FunctionDef, cst.ClassDef, cst.Lambda)) and one is not node:
            continue
        targets = _targets(one)
        if isinstance(one, (cst.For, cst.NamedExpr)):
            targets.append(one.target)
        if isinstance(one, cst.AsName) and isinstance(one.name, cst.BaseExpression):
            targets.append(one.name)
        for target in targets:
            yield from (n for n in names_of(target) if isinstance(n, cst.Name))
        stack.extend(reversed(list(children(one))))


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a statement assigns to."""
    if isinstance(node, cst.Assign):
        return [t.target for t in node.targets]
    return [node.target] if isinstance(node, (cst.AugAssign, cst.AnnAssign)) else []


def targets_of(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a statement, a loop or a named expression binds or assigns to."""
    if isinstance(node, (cst.For, cst.CompFor, cst.NamedExpr)):
        return [node.target]
    return _targets(node)


def attribute_targets(node: cst.CSTNode) -> Iterator[cst.Attribute]:
    """The attributes that a statement assigns to."""
    for target in _targets(node):
        yield from (t for t in names_of(target) if isinstance(t, cst.Attribute))


def parameter_names(function: cst.FunctionDef) -> set[str]:
    """What a function's parameters are called."""
    params = function.params
    return {p.name.value for p in (*params.params, *params.kwonly_params, *params.posonly_params)}
