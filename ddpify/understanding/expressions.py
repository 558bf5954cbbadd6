"""What each kind of expression evaluates to."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import (
    batch_rows,
    collating,
    draws,
    instances,
    keeping,
    kinds,
    narrowing,
    tensors,
)
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import children
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Const,
    Data,
    Device,
    Function,
    Instance,
    Lib,
    Method,
    Namespace,
    Number,
    Params,
    Super,
    Tup,
    Value,
    Whole,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

BUILTINS = frozenset(dir(builtins))
_CONSTANTS = {str(one): value(Const(one)) for one in (True, False, None)}
_NAMED = (Placement.MEAN, Placement.SUM)  # reduced where they get a name
CONTAINERS = ("list", "dict", "set", "generator")

OPERATORS: dict[type, str] = {
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/", cst.FloorDivide: "//",
    cst.Modulo: "%", cst.Power: "**", cst.MatrixMultiply: "@",
    cst.AddAssign: "+", cst.SubtractAssign: "-", cst.MultiplyAssign: "*", cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//", cst.ModuloAssign: "%", cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
}  # fmt: skip


def dotted_name(node: cst.BaseExpression) -> str:
    """The dotted name of an import, empty where there is none."""
    return dotted(node) or ""


def evaluate(run: Interpreter, node: cst.BaseExpression) -> Value:
    """The value of an expression, through the function for its type."""
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        return handler(run, node)
    for child in children(node):
        if isinstance(child, cst.BaseExpression):
            run.eval(child)
    return UNKNOWN


# ---------------------------------------------------------------------- names and literals
def _name(run: Interpreter, node: cst.Name) -> Value:
    known = _CONSTANTS.get(node.value)
    return run.lookup(node.value) if known is None else known


def _literal(run: Interpreter, node: cst.Integer | cst.Float | cst.SimpleString) -> Value:
    return _literal_value(type(node), node.value)


@lru_cache(maxsize=4096)
def _literal_value(kind: type[cst.BaseExpression], text: str) -> Value:
    """The value of a literal's text: Python's own evaluation of it costs as much as parsing."""
    return value(Const(kind(text).evaluated_value))  # type: ignore[call-arg, attr-defined]


def _concatenated(run: Interpreter, node: cst.ConcatenatedString) -> Value:
    run.eval(node.left)
    run.eval(node.right)
    return REPLICATED


def _formatted(run: Interpreter, node: cst.FormattedString) -> Value:
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            run.demand(part.expression, run.eval(part.expression), "an f-string")
    return REPLICATED


# ---------------------------------------------------------------------- attributes
def _attribute(run: Interpreter, node: cst.Attribute) -> Value:
    owner = run.eval(node.value)
    name = node.attr.value
    return join(*(attribute_of(run, node, atom, name) for atom in owner.atoms))


def attribute_of(run: Interpreter, node: cst.BaseExpression, atom: Atom, name: str) -> Value:
    """What ``atom.name`` is."""
    if isinstance(atom, Lib):
        return value(Lib(kinds.canonical(f"{atom.name}.{name}")))
    if isinstance(atom, Namespace):
        return _member_of(run, node, atom, name)
    if isinstance(atom, Instance):
        return _instance_attribute(run, node, atom, name)
    if isinstance(atom, Class):
        return atom.find(name) or UNKNOWN
    if isinstance(atom, Super):
        return _super_attribute(run, node, atom.receiver, name)
    if isinstance(atom, Data):
        called = _is_called(run, node)
        return tensors.attribute(atom, name, called=called)
    if isinstance(atom, Whole):
        return batch_rows.attribute(run, atom, name, called=_is_called(run, node))
    if isinstance(atom, Tup) and name in ("values", "indices"):
        return join(*atom.items)
    if isinstance(atom, Params) and name == "grad":
        run.facts.stepped.add(atom.owner)
        run.facts.event(atom.owner, "optimize", run.site(node))
        return REPLICATED
    if isinstance(atom, (Number, Tup, Const, Params, Device)):
        return value(Method(value(atom), name))
    return UNKNOWN


def _is_called(run: Interpreter, node: cst.BaseExpression) -> bool:
    parent = run.module.parents.get(node)
    return isinstance(parent, cst.Call) and parent.func is node


def _member_of(run: Interpreter, node: cst.BaseExpression, atom: Namespace, name: str) -> Value:
    if name == "__dict__":
        made = run.instance(node, run.module, "dict")
        for key, held in list(atom.scope.names.items()):
            if any(isinstance(a, (Class, Function)) for a in held.atoms):
                run.put(made, f"[{key!r}]", held)
        return value(made)
    found = atom.scope.names.get(name)
    if found is None:
        found = run._member(atom.module, "", name, 0) if atom.module.name == name else None
    if found is None:
        local = run.project.resolve(f"{atom.module.name}.{name}", run.module)
        found = value(run.namespace(local)) if local else UNKNOWN
    return found


def package_value(run: Interpreter, top: str) -> Atom:
    """A package of the project that ``import a.b`` binds, or a library's."""
    package = run.project.resolve(top, run.module)
    return run.namespace(package) if package else Lib(top)


def _instance_attribute(
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str
) -> Value:
    if name in atom.attributes:
        return atom.attributes[name]
    if isinstance(atom.type, Class):
        found = atom.type.find(name)
        if found is not None:
            return join(*(_bind(run, node, atom, one) for one in found.atoms))
    if name.startswith("__") and name.endswith("__") and not _is_called(run, node):
        return REPLICATED  # about the object, as its class is
    special = instances.instance_attribute(run, node, atom, name)
    return special if special is not None else value(Method(value(atom), name))


def _super_attribute(
    run: Interpreter, node: cst.BaseExpression, receiver: Instance, name: str
) -> Value:
    if isinstance(receiver.type, Class):
        for base in receiver.type.project_bases():
            found = base.find(name)
            if found is not None:
                return join(*(_bind(run, node, receiver, one) for one in found.atoms))
    return value(Method(value(receiver), name))


def _bind(run: Interpreter, node: cst.BaseExpression, atom: Instance, one: Atom) -> Value:
    if not isinstance(one, Function):
        return value(one)
    decorators = _decorators(one)
    if "property" in decorators or "cached_property" in decorators:
        return run.call(node, value(Bound(atom, one)), [], {})
    return value(one) if "staticmethod" in decorators else value(Bound(atom, one))


def _decorators(function: Function) -> set[str]:
    if isinstance(function.node, cst.Lambda) or not function.node.decorators:
        return set()
    names = (dotted(d.decorator) for d in function.node.decorators)
    return {name.split(".")[-1] for name in names if name}


def attribute_set(run: Interpreter, node: cst.Attribute, owner: Instance, new: Value) -> None:
    """Note what setting an attribute means: a model that gets another layer, a frozen parameter."""
    first = next(iter(run.frame.scope.names), None)
    own = isinstance(node.value, cst.Name) and node.value.value == first
    layers = any(isinstance(a, Instance) and kinds.is_model(a) for a in new.atoms)
    frozen = node.attr.value == "requires_grad"
    if kinds.is_model(owner) and not own and (layers or frozen):
        run.facts.event(owner, "change", run.site(node))


# ---------------------------------------------------------------------- items
def _subscript(run: Interpreter, node: cst.Subscript) -> Value:
    owner = run.eval(node.value)
    key = subscript_key(run, node)
    return join(*(_item_of(run, node, atom, key) for atom in _indexed(owner, key)))


def _indexed(owner: Value, key: str) -> list[Atom]:
    """What is indexed: not a tensor that comes alone or, as here, as a tuple's element.

    ``return out, weights`` beside ``return out`` go by one condition, as does ``model(x)[0]``.
    """
    held = [item for tup in owner.of(Tup) if key != "*" for item in tup.items]  # type: ignore[union-attr]
    alone = {_unborn(atom) for item in held for atom in item.data}
    batch = any(isinstance(atom, Whole) for atom in owner.atoms)
    others = [a for a in owner.atoms if not (batch and isinstance(a, Number))]
    return [a for a in others if not (isinstance(a, Data) and _unborn(a) in alone)]


def _unborn(atom: Data) -> Data:
    """A tensor whatever the expressions that made it: two may be written alike."""
    return replace(atom, births=frozenset(), names=frozenset())


def subscript_key(run: Interpreter, node: cst.Subscript) -> str:
    """The key of a container element: its literal, or ``*``."""
    constants = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index):
            constants.append(run.eval(part.value).constant())
        elif isinstance(part, cst.Slice):
            for bound in (part.lower, part.upper, part.step):
                if bound is not None:
                    for data in run.eval(bound).data:
                        if data.placement is Placement.COUNT:
                            run.facts.shape_uses.update(data.births)
            constants.append(...)
    return "*" if len(constants) != 1 or constants[0] is ... else f"[{constants[0]!r}]"


def _item_of(run: Interpreter, node: cst.Subscript, atom: Atom, key: str) -> Value:
    if isinstance(atom, Tup):
        return _tuple_item(node, atom, key)
    if isinstance(atom, Instance):
        return _instance_item(run, node, atom, key)
    if isinstance(atom, Data):
        return tensors.item(run, node, atom)
    if isinstance(atom, Whole):
        return batch_rows.item(run, node, atom)
    if isinstance(atom, (Number, Const)):
        return tensors.replicated_item(run, node)
    return value(atom) if isinstance(atom, Params) else UNKNOWN


def _tuple_item(node: cst.Subscript, atom: Tup, key: str) -> Value:
    try:
        return atom.items[int(key.strip("[]"))]
    except (ValueError, IndexError):
        return join(*atom.items)


def _instance_item(run: Interpreter, node: cst.Subscript, atom: Instance, key: str) -> Value:
    if isinstance(atom.type, Class):
        found = atom.type.find("__getitem__")
        if found is not None:
            functions = [Bound(atom, f) for f in found.of(Function)]  # type: ignore[arg-type]
            return run.call(node, value(*functions), [REPLICATED], {})
    if kinds.is_model(atom):
        return value(atom)  # a layer: as good as its model
    if key != "*" and key in atom.attributes:
        return join(atom.attributes[key], atom.attributes.get("*", UNKNOWN))
    return atom.elements if atom.type in CONTAINERS else instances.item(run, atom)


# ---------------------------------------------------------------------- operators
def _binary(run: Interpreter, node: cst.BinaryOperation) -> Value:
    left, right = run.eval(node.left), run.eval(node.right)
    operator = OPERATORS.get(type(node.operator), "?")
    if operator == "%" and isinstance(
        node.left, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
    ):
        read_all(run, node.right, right, "a formatted string")
        return REPLICATED
    return tensors.binary(run, node, operator, (node.left, left), (node.right, right))


def read_all(run: Interpreter, node: cst.BaseExpression, what: Value, reader: str) -> None:
    """Something reads a value and, where it is a display, each of its parts."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            read_all(run, element.value, run.seen(element.value), reader)
        return
    if isinstance(node, cst.Dict):
        for pair in node.elements:
            read_all(run, pair.value, run.seen(pair.value), reader)
        return
    run.demand(node, what, reader)


def _unary(run: Interpreter, node: cst.UnaryOperation) -> Value:
    operand = run.eval(node.expression)
    if isinstance(node.operator, cst.Not):
        run.demand(node.expression, operand, "a condition")
        truth = run.truth(node.expression, operand)
        return REPLICATED if truth is None else value(Const(not truth))
    if isinstance(node.operator, cst.Minus):
        constant = operand.constant()
        if isinstance(constant, (int, float)):
            return value(Const(-constant))
    return tensors.fresh(operand)


def _boolean(run: Interpreter, node: cst.BooleanOperation) -> Value:
    left, right = run.eval(node.left), run.eval(node.right)
    run.demand(node.left, left, "a condition")
    run.demand(node.right, right, "a condition")
    truth = run.truth(node.left, left)
    if truth is None:
        return join(left, right)
    return left if truth is isinstance(node.operator, cst.Or) else right


def _comparison(run: Interpreter, node: cst.Comparison) -> Value:
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    values = run.eval_all(sides)
    identity = any(isinstance(t.operator, (cst.Is, cst.IsNot)) for t in node.comparisons)
    if identity and not any(d.placement is Placement.COUNT for one in values for d in one.data):
        return REPLICATED
    known = _equal(node, values)
    return tensors.compare(run, sides, values) if known is None else value(Const(known))


def _equal(node: cst.Comparison, values: list[Value]) -> bool | None:
    """The truth of ``x.dim() == 3`` and the like; names are settings that may change."""
    left, right = values[0].constant(), values[1].constant()
    operator = node.comparisons[0].operator
    asked = isinstance(node.left, (cst.Call, cst.Attribute)) and len(values) == 2
    if not asked or left is ... or right is ...:
        return None
    if isinstance(operator, (cst.Equal, cst.NotEqual)):
        return (left == right) is isinstance(operator, cst.Equal)
    return None


def _conditional(run: Interpreter, node: cst.IfExp) -> Value:
    truth = run.condition(node.test)
    truth = narrowing.decided(run, node.test) if truth is None else truth
    if truth is not None:
        return run.eval(node.body if truth else node.orelse)
    return join(run.eval(node.body), run.eval(node.orelse))


# ---------------------------------------------------------------------- displays
def _tuple(run: Interpreter, node: cst.Tuple) -> Value:
    if any(isinstance(e, cst.StarredElement) for e in node.elements):
        for element in node.elements:
            run.eval(element.value)
        return UNKNOWN
    return value(Tup(tuple(run.eval(e.value) for e in node.elements)))


def _list(run: Interpreter, node: cst.List | cst.Set) -> Value:
    made = run.instance(node, run.module, "list")
    for position, element in enumerate(node.elements):
        item = run.eval(element.value)
        starred = isinstance(element, cst.StarredElement)
        item = iterate(run, element.value, item) if starred else item
        run.put(made, "*" if starred else f"[{position}]", item)
    return value(made)


def _kept(run: Interpreter, node: cst.BaseExpression) -> Value:
    """What a dictionary gets under a key: a partial value without a name is born there."""
    held = run.eval(node)
    named = isinstance(node, cst.Name) or any(data.births for data in held.data)
    return held if named else join(*(value(born_at(atom, node)) for atom in held.atoms))


def _dict(run: Interpreter, node: cst.Dict) -> Value:
    made = run.instance(node, run.module, "dict")
    for pair in node.elements:
        item = _kept(run, pair.value)
        if isinstance(pair, cst.DictElement):
            key = run.eval(pair.key).constant()
            run.put(made, "*" if key is ... else f"[{key!r}]", item)
            continue
        for source in item.of(Instance):
            for key, held in list(source.attributes.items()):  # type: ignore[union-attr]
                run.put(made, key, held)
    return value(made)


def _comprehension(run: Interpreter, node: cst.BaseSimpleComp | cst.DictComp) -> Value:
    names = run.frame.scope.names
    before = dict(names)
    for_in: cst.CompFor | None = node.for_in
    while for_in is not None:
        run.assign(for_in.target, iterate(run, for_in.iter, run.eval(for_in.iter)))
        for test in for_in.ifs:
            run.condition(test.test)
        for_in = for_in.inner_for_in
    with run.taking_rows(draws.rows_of(run, node.for_in.iter)):
        if isinstance(node, cst.DictComp):
            run.eval(node.key)
            item = _kept(run, node.value)
        else:
            item = run.eval(node.elt)
    names.clear()
    names.update(before)
    made = run.instance(node, run.module, "dict" if isinstance(node, cst.DictComp) else "list")
    run.put(made, "*", item)
    return value(made)


def _lambda(run: Interpreter, node: cst.Lambda) -> Value:
    made = run.functions.setdefault(node, Function(node, run.module, run.frame.scope))
    made.scope = run.frame.scope
    return value(made)


def _named(run: Interpreter, node: cst.NamedExpr) -> Value:
    result = run._born(run.eval(node.value), node.value)
    run.assign(node.target, result)
    return result


def _yield(run: Interpreter, node: cst.Yield) -> Value:
    if isinstance(node.value, cst.From):
        source = run.eval(node.value.item)
        run.frame.returned.append(value(Tup((iterate(run, node.value.item, source),))))
    elif node.value is not None:
        run.frame.returned.append(value(Tup((run.eval(node.value),))))
    return UNKNOWN


def _await(run: Interpreter, node: cst.Await) -> Value:
    return run.eval(node.expression)


# ---------------------------------------------------------------------- calls
def _call(run: Interpreter, node: cst.Call) -> Value:
    callee = run.eval(node.func)
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for arg in node.args:
        result = run.eval(arg.value)
        if arg.star == "*":
            args.extend(_spread(run, arg.value, result))
        elif arg.star == "**":
            _spread_keywords(result, kwargs)
        elif arg.keyword is not None:
            kwargs[arg.keyword.value] = result
        else:
            args.append(result)
    keeping.method(run, node, args, kwargs)
    return run.call(node, callee, args, kwargs)


def _spread(run: Interpreter, node: cst.BaseExpression, result: Value) -> list[Value]:
    tuples = [atom.items for atom in result.atoms if isinstance(atom, Tup)]
    if tuples:
        return [join(*(one for one in each if one)) for each in zip_longest(*tuples)]
    for atom in result.atoms:
        if isinstance(atom, Data) and atom.form == "shape":
            return [value(atom)]  # the sizes, as one argument that stands for them all
        if isinstance(atom, Instance) and atom.type == "list":
            known = [atom.attributes[k] for k in sorted(atom.attributes) if k != "*"]
            if known and "*" not in atom.attributes:
                return known
    return [iterate(run, node, result)]


def _spread_keywords(result: Value, kwargs: dict[str, Value]) -> None:
    for atom in result.of(Instance):
        for key, held in atom.attributes.items():  # type: ignore[union-attr]
            if key.startswith("['"):
                kwargs.setdefault(key[2:-2], held)
    kwargs.setdefault("**", result)


# ---------------------------------------------------------------------- taking apart
def iterate(run: Interpreter, node: cst.BaseExpression, iterable: Value) -> Value:
    """What ``for x in iterable`` binds."""
    return join(*(_element(run, node, atom) for atom in iterable.atoms))


def _element(run: Interpreter, node: cst.BaseExpression, atom: Atom) -> Value:
    if isinstance(atom, Instance):
        if atom.type in CONTAINERS:
            return atom.elements
        return instances.iterate(run, node, atom)
    if isinstance(atom, Tup):
        return join(*atom.items)
    if isinstance(atom, Data):
        if atom.form == "samples" or atom.dim == collating.NO_ROWS:
            return value(collating.sample(atom))
        if atom.form == "batch" or atom.opaque:
            return value(atom)  # a container of rows, as far as is known
        if atom.dim > 0 and atom.placement is Placement.SHARD:
            return value(replace(atom, dim=atom.dim - 1, births=frozenset(), ndim=0))
        births = frozenset({node}) if atom.placement is Placement.SHARD else frozenset()
        row = replace(atom, placement=tensors.picked(atom.placement), births=births, ndim=0)
        return value(row)
    if isinstance(atom, Whole):
        return batch_rows.element(run, atom)
    return value(atom) if isinstance(atom, Params) else REPLICATED


def unpacked(run: Interpreter, whole: Value, position: int, count: int) -> Value:
    """What the element at a position of ``a, b = whole`` gets."""
    return join(*(_part(run, atom, position, count) for atom in whole.atoms))


def _part(run: Interpreter, atom: Atom, position: int, count: int) -> Value:
    if isinstance(atom, Tup):
        return atom.items[position] if len(atom.items) == count else join(*atom.items)
    if isinstance(atom, Instance):
        exact = atom.attributes.get(f"[{position}]")
        if exact is not None and "*" not in atom.attributes:
            return exact
        return atom.elements if atom.type in CONTAINERS else instances.item(run, atom)
    if isinstance(atom, Data):
        return tensors.part(atom, position)
    if isinstance(atom, Whole):
        return REPLICATED
    return value(atom) if isinstance(atom, (Number, Params)) else UNKNOWN


# ---------------------------------------------------------------------- births
def born_at(atom: Atom, node: cst.BaseExpression) -> Atom:
    """A value remembers the expression at which it got a name, to be reduced or gathered there."""
    if isinstance(atom, Data) and atom.placement is Placement.SHARD:
        atom = replace(atom, names=frozenset({node}))
    if isinstance(atom, Data) and (atom.placement in _NAMED or atom.opaque):
        return replace(atom, births=frozenset({node}))
    return atom


def forget_births(result: Value) -> Value:
    """What a function returns is reduced where the caller takes it."""
    atoms = [
        replace(a, births=frozenset())
        if isinstance(a, Data) and (a.placement in _NAMED or a.opaque)
        else a
        for a in result.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def reduced(result: Value) -> Value:
    """A value after its reduction over the ranks."""
    return join(value(*(_whole(a) for a in result.atoms)))


def _whole(atom: Atom) -> Atom:
    if not isinstance(atom, Data) or not atom.placement.local:
        return atom
    whole = atom.placed(Placement.REPLICATE)
    return replace(whole, form="gathered") if atom.placement is Placement.SHARD else whole


def accumulate(
    run: Interpreter, node: cst.AugAssign, operator: str, old: Value, new: Value
) -> Value:
    """The value of ``target operator= new``."""
    if any(isinstance(a, Instance) and a.type == "list" for a in old.atoms):
        for target in old.of(Instance):
            run.put(target, "*", iterate(run, node.value, new))  # type: ignore[arg-type]
        return old
    if any(d.placement.partial for d in new.data) and run.outlives_batch(node.target):
        run.demand(node.value, new, "a running total")
        new = reduced(new)
    return tensors.binary(run, node, operator, (node.target, old), (node.value, new))


def is_no_grad(context: Value) -> bool:
    """Whether a context manager switches gradients off."""
    return any(isinstance(a, Instance) and a.type in kinds.NO_GRAD for a in context.atoms)


def entered(context: Value) -> Value:
    """What ``with context as x`` binds."""
    return context


_HANDLERS: dict[type, Callable[..., Value]] = {
    cst.Name: _name,
    cst.Integer: _literal,
    cst.Float: _literal,
    cst.SimpleString: _literal,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.Attribute: _attribute,
    cst.Subscript: _subscript,
    cst.BinaryOperation: _binary,
    cst.UnaryOperation: _unary,
    cst.BooleanOperation: _boolean,
    cst.Comparison: _comparison,
    cst.IfExp: _conditional,
    cst.Tuple: _tuple,
    cst.List: _list,
    cst.Set: _list,
    cst.Dict: _dict,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _comprehension,
    cst.Lambda: _lambda,
    cst.NamedExpr: _named,
    cst.Yield: _yield,
    cst.Await: _await,
    cst.Call: _call,
}
