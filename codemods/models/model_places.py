"""Expressions that give a model, and which of them can be wrapped as they stand."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, is_main_guard
from ddpify.understanding.values import UNKNOWN, Instance

_COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp, cst.DictComp)


def stands_alone(module: ModuleFile, model: Instance, node: cst.BaseExpression) -> bool:
    """Whether an expression is all of an assignment's or a return's value, on every path."""
    parent = module.parents[node]
    if not isinstance(parent, (cst.Assign, cst.AnnAssign, cst.Return, cst.Arg, cst.NamedExpr)):
        return False
    if "\n" in code_of(node) and _names_it(module, node):
        return False  # its name is rebound on a line of its own: the smaller change
    made = _goes_on_without_a_name(parent) and _is_made_in(model, node)
    return made or not _is_in_branch(module, node)


def _goes_on_without_a_name(above: cst.CSTNode) -> bool:
    """Whether what an expression gives is returned, handed to a call, or put into a collection."""
    if isinstance(above, cst.Assign):
        return all(isinstance(one.target, cst.Subscript) for one in above.targets)
    return isinstance(above, (cst.Return, cst.Arg))


def is_listed(module: ModuleFile, model: Instance, node: cst.BaseExpression) -> bool:
    """Whether an expression is one of several that are assigned, or makes an element.

    Of a list or a dictionary, or of a tuple that is returned or handed on.
    """
    parent = module.parents[node]
    if isinstance(parent, _COMPREHENSIONS):  # what they go through stands a level lower
        return _is_made_in(model, node)
    display = module.parents[parent]
    if isinstance(display, cst.Tuple) and isinstance(module.parents[display], cst.Assign):
        return not _is_in_branch(module, node)
    tupled = isinstance(display, cst.Tuple)
    handed = tupled and isinstance(module.parents[display], (cst.Return, cst.Arg))
    return (handed or isinstance(display, (cst.List, cst.Dict))) and _is_made_in(model, node)


def gives_model(plan: Plan, model: Instance, node: cst.BaseExpression) -> bool:
    """Whether an expression gives a model itself, as far as is known, and not what holds it."""
    held = plan.facts.values.get(node)
    return held is None or model in held.atoms


def is_receiver(module: ModuleFile, model: Instance, node: cst.BaseExpression) -> bool:
    """Whether an expression makes the model that a method is called of, as in ``Net(3).fit(x)``."""
    method = module.parents[node]
    call = module.parents[method]
    called = isinstance(call, cst.Call) and call.func is method
    return isinstance(method, cst.Attribute) and called and _is_made_in(model, node)


def is_name_of(plan: Plan, model: Instance, site: Site, name: str) -> bool:
    """Whether a name stands for a model itself around a place, and not for its parameters, say."""
    scope = site.module.function(site.node) or site.module.parsed.tree
    seen = (node for part in walk(scope) for node in _seen_as(part, name))
    return any(model in plan.facts.values.get(node, UNKNOWN).atoms for node in seen)


def _seen_as(part: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    """Where a name's value is seen: an attribute is not evaluated where it is set."""
    if isinstance(part, (cst.Name, cst.Attribute)) and code_of(part) == name:
        yield part
    elif isinstance(part, cst.Assign) and any(code_of(t.target) == name for t in part.targets):
        yield part.value


def _is_made_in(model: Instance, node: cst.BaseExpression) -> bool:
    return any(part is model.site for part in (node, *walk(node)))


def handed_over(plan: Plan, model: Instance) -> Site | None:
    """The one call that gives a model which goes on without a name, as in ``train(build(3))``."""
    calls = (site for site in plan.sites(cst.Call) if _is_handed_on(site))
    given = [site for site in calls if _gives(plan, model, site.node)]
    inner = [
        one
        for one in given
        if not any(o is not one and one.module.holds(one.node, o.node) for o in given)
    ]
    return inner[0] if len(inner) == 1 else None


def _is_handed_on(site: Site) -> bool:
    return isinstance(site.module.parents[site.node], (cst.Arg, cst.Element))


def _gives(plan: Plan, model: Instance, node: cst.CSTNode) -> bool:
    """Whether an expression gives this model, or other models in its place, and nothing else."""
    held = plan.facts.values.get(node, UNKNOWN).atoms
    return model in held and all(isinstance(a, Instance) and is_model(a) for a in held)


def _is_in_branch(module: ModuleFile, node: cst.BaseExpression) -> bool:
    """Whether an expression is evaluated in a branch or loop alone, perhaps on its very line."""
    statement = module.statement(node)
    shared = isinstance(statement, (cst.If, cst.For, cst.While))
    return shared or conditional(module, statement) is not None


def _names_it(module: ModuleFile, node: cst.BaseExpression) -> bool:
    """Whether the expression is assigned to one name, by which it can be rebound."""
    parent = module.parents[node]
    return isinstance(parent, cst.Assign) and isinstance(
        parent.targets[0].target, (cst.Name, cst.Attribute)
    )


def conditional(module: ModuleFile, statement: cst.CSTNode) -> cst.CSTNode | None:
    """The outermost branch or loop, inside its function, that a statement stands in."""
    found = None
    for node in module.structure.up(statement):
        if isinstance(node, cst.FunctionDef):
            break
        if isinstance(node, (cst.For, cst.While, cst.Try)) or (
            isinstance(node, cst.If) and not is_main_guard(node.test)
        ):
            found = node
    return found
