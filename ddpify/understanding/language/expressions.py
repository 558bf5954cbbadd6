"""What each kind of expression evaluates to."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import readers
from ddpify.understanding.arithmetic import tensor_pairs, tensors
from ddpify.understanding.batching import at_hand, keeping, listed, together
from ddpify.understanding.forms import Form
from ddpify.understanding.language import (
    assignments,
    attributes,
    births,
    branches,
    elements,
    narrowing,
    spreading,
    tests,
)
from ddpify.understanding.libraries import draws, instances, kinds
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import children
from ddpify.understanding.syntax import OPERATORS
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Bound,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

BUILTINS = frozenset(dir(builtins))
_CONSTANTS = {str(one): value(Const(one)) for one in (True, False, None)}


def evaluate(run: Interpreter, node: cst.BaseExpression) -> Value:
    """The value of an expression, through the function for its type."""
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        return handler(run, node)
    for child in children(node):
        if isinstance(child, cst.BaseExpression):
            run.eval(child)
    return UNKNOWN


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
            run.demand_held(part.expression, run.eval(part.expression), "an f-string")
    return REPLICATED


def _binary(run: Interpreter, node: cst.BinaryOperation) -> Value:
    left, right = run.eval(node.left), run.eval(node.right)
    operator = OPERATORS.get(type(node.operator), "?")
    if operator == "%" and isinstance(
        node.left, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
    ):
        run.demand_held(node.right, right, "a formatted string")
        return REPLICATED
    return tensor_pairs.binary(run, node, operator, (node.left, left), (node.right, right))


def _unary(run: Interpreter, node: cst.UnaryOperation) -> Value:
    operand = run.eval(node.expression)
    if isinstance(node.operator, cst.Not):
        run.demand(node.expression, operand, "a condition")
        truth = tests.truth(run, node.expression, operand)
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
    truth = tests.truth(run, node.left, left)
    if truth is None:
        return join(left, right)
    return left if truth is isinstance(node.operator, cst.Or) else right


def _comparison(run: Interpreter, node: cst.Comparison) -> Value:
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    values = run.eval_all(sides)
    identity = any(isinstance(t.operator, (cst.Is, cst.IsNot)) for t in node.comparisons)
    if identity and not any(d.placement is Placement.COUNT for one in values for d in one.data):
        return REPLICATED
    if isinstance(node.comparisons[-1].operator, (cst.In, cst.NotIn)):
        return _membership(run, sides, values)
    known = _equal(run, node, values)
    return tensor_pairs.compare(run, sides, values) if known is None else value(Const(known))


def _membership(run: Interpreter, sides: list[cst.BaseExpression], values: list[Value]) -> Value:
    """``x in rows`` asks all of them; ``"name" in batch`` asks a dictionary for its keys."""
    if isinstance(values[0].constant(), str):
        return REPLICATED
    for side, held in zip(sides, values, strict=True):
        run.demand(side, held, "a membership test")
    return REPLICATED


def _equal(run: Interpreter, node: cst.Comparison, values: list[Value]) -> bool | None:
    """The truth of ``x.dim() == 3`` and the like, and of ``kind == "a"`` of what the call passes.

    Other names are settings that may change.
    """
    left, right = values[0].constant(), values[1].constant()
    operator = node.comparisons[0].operator
    passed = isinstance(node.left, cst.Name) and node.left.value in run.frame.scope.passed
    kind = passed and (left is None or isinstance(left, str))
    asked = (kind or isinstance(node.left, (cst.Call, cst.Attribute))) and len(values) == 2
    if not asked or left is ... or right is ...:
        return None
    if isinstance(operator, (cst.Equal, cst.NotEqual)):
        return (left == right) is isinstance(operator, cst.Equal)
    return None


def _conditional(run: Interpreter, node: cst.IfExp) -> Value:
    truth = branches.condition(run, node.test)
    truth = narrowing.decided(run, node.test) if truth is None else truth
    if truth is not None:
        return run.eval(node.body if truth else node.orelse)
    expected = tests.by_defaults(run, node.test)
    body, other = run.eval(node.body), run.eval(node.orelse)
    placements = {d.placement for d in (*body.data, *other.data)}
    if body.data and other.data and len(placements) > 1:  # no one reduction of the whole suits both
        body, other = births.given_as(body, node.body), births.given_as(other, node.orelse)
    return join(body, other) if expected is None else body if expected else other


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
        item = elements.iterate(run, element.value, item) if starred else item
        run.put(made, "*" if starred else f"[{position}]", item)
    return value(made)


def _kept(run: Interpreter, node: cst.BaseExpression) -> Value:
    """What a dictionary gets under a key: a partial value without a name is born there."""
    held = run.eval(node)
    named = isinstance(node, cst.Name) or any(data.births for data in held.data)
    return held if named else join(*(value(births.born_at(atom, node)) for atom in held.atoms))


def _goes_through_batches(run: Interpreter, iterable: Value) -> bool:
    """Whether a comprehension takes batches, of a loader or of an iterator of the project's own."""
    own = (a for a in iterable.of(Instance) if isinstance(a.type, Class))  # type: ignore[union-attr]
    return bool(instances.loaders_of(run, iterable)) or any(not kinds.is_model(a) for a in own)  # type: ignore[arg-type]


def _kept_of_batches(run: Interpreter, node: cst.BaseExpression, item: Value) -> Value:
    """What a comprehension keeps of each batch must be whole: the next one is shared otherwise.

    Sums over the samples do not go by how a batch is shared.
    """
    local = [a for a in deep_atoms(item) if isinstance(a, Data) and a.placement.local]
    local = [data for data in local if data.placement is not Placement.SUM]
    for data in local:
        run.demand(node, value(data), readers.A_KEPT_COLLECTION)
    return births.reduced(item) if local else item


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


def _of_a_tuple(run: Interpreter, node: cst.BaseSimpleComp) -> Value | None:
    """``[x.to(device) for x in batch]`` of a tuple: what each of its elements becomes."""
    plain = not node.for_in.ifs and node.for_in.inner_for_in is None
    taken = run.eval(node.for_in.iter).atoms if plain else ()
    if len(taken) != 1 or not isinstance(taken[0], Tup):
        return None
    names = run.frame.scope.names
    before = dict(names)
    made = run.instance(node, run.module, "list")
    for number, item in enumerate(taken[0].items):
        assignments.assign(run, node.for_in.target, item)
        run.put(made, f"[{number}]", run.eval(node.elt))
    names.clear()
    names.update(before)
    return value(made)


def _comprehension(run: Interpreter, node: cst.BaseSimpleComp | cst.DictComp) -> Value:
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        parts = _of_a_tuple(run, node)
        if parts is not None:
            return parts
    names = run.frame.scope.names
    before = dict(names)
    for_in: cst.CompFor | None = node.for_in
    first: Value | None = None
    own: frozenset[Instance] = frozenset()
    while for_in is not None:
        iterable = run.eval(for_in.iter)
        element = elements.iterate(run, for_in.iter, iterable)
        if first is None and _goes_through_batches(run, iterable):
            own = together.sources(element)
            at_hand.taken(run, together.last(run, element))
        first = element if first is None else first
        assignments.assign(run, for_in.target, element)
        for test in for_in.ifs:
            branches.condition(run, test.test)
        for_in = for_in.inner_for_in
    whole = bool(instances.given_whole(run, run.seen(node.for_in.iter)))
    with run.taking_rows(draws.rows_of(run, node.for_in.iter)), run.through_whole(whole):
        if isinstance(node, cst.DictComp):
            run.eval(node.key)
            item = _kept(run, node.value)
        else:
            item = run.eval(node.elt)
    if own:
        item = _kept_of_batches(run, node.value if isinstance(node, cst.DictComp) else node.elt, item)
    at_hand.gone_through(run, own)
    each = first is not None and listed.is_of_each(run, node, first, item)
    names.clear()
    names.update(before)
    made = run.instance(node, run.module, "dict" if isinstance(node, cst.DictComp) else "list")
    made.each = each
    if item:
        run.put(made, "*", item)
    taken = run.seen(node.for_in.iter).of(Data)
    if any(data.form is Form.GATHERED for data in taken):  # type: ignore[union-attr]
        run.of_all_ranks.add(made)
    return value(made)


def _lambda(run: Interpreter, node: cst.Lambda) -> Value:
    made = run.functions.setdefault(node, Function(node, run.module, run.frame.scope))
    made.scope = run.frame.scope
    return value(made)


def _named(run: Interpreter, node: cst.NamedExpr) -> Value:
    result = assignments.born(run, run.eval(node.value), node.value)
    assignments.assign(run, node.target, result)
    return result


def _yield(run: Interpreter, node: cst.Yield) -> Value:
    if isinstance(node.value, cst.From):
        source = run.eval(node.value.item)
        run.frame.returned.append(value(Tup((elements.iterate(run, node.value.item, source),))))
    elif node.value is not None:
        run.frame.returned.append(value(Tup((run.eval(node.value),))))
    return UNKNOWN


def _await(run: Interpreter, node: cst.Await) -> Value:
    return run.eval(node.expression)


def _call(run: Interpreter, node: cst.Call) -> Value:
    callee = run.eval(node.func)
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    enters = any(isinstance(atom, (Function, Bound, Class)) for atom in callee.atoms)
    for arg in node.args:
        result = run.eval(arg.value)
        if enters and result.data:
            result = births.given_as(result, arg.value)
        if arg.star == "*":
            left = spreading.open_parameters(callee, node, len(args))
            args.extend(spreading.spread(run, arg.value, result, left))
        elif arg.star == "**":
            _spread_keywords(result, kwargs)
        elif arg.keyword is not None:
            kwargs[arg.keyword.value] = result
        else:
            args.append(result)
    keeping.method(run, node, args, kwargs)
    return run.call(node, callee, args, kwargs)


def _spread_keywords(result: Value, kwargs: dict[str, Value]) -> None:
    for atom in result.of(Instance):
        for key, held in atom.attributes.items():  # type: ignore[union-attr]
            if key.startswith("['"):
                kwargs.setdefault(key[2:-2], held)
    kwargs.setdefault("**", result)


_HANDLERS: dict[type, Callable[..., Value]] = {
    cst.Name: _name,
    cst.Integer: _literal,
    cst.Float: _literal,
    cst.SimpleString: _literal,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.Attribute: attributes.evaluate,
    cst.Subscript: elements.subscript,
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
