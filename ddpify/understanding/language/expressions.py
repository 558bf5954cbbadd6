"""What each kind of expression evaluates to."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites, narrowing, uses
from ddpify.understanding.arithmetic import comparisons, one_tensor, tensor_pairs
from ddpify.understanding.batching import (
    current_batch,
    persistent_state,
    row_numbers,
    samples_by_place,
)
from ddpify.understanding.forms import Layout
from ddpify.understanding.language import (
    assignments,
    attributes,
    branch_tests,
    branches,
    comprehensions,
    elements,
    star_args,
    told_comparisons,
)
from ddpify.understanding.libraries import own_methods, python_iterables
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import children
from ddpify.understanding.syntax import OPERATORS, content
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
    either,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

BUILTINS = frozenset(dir(builtins))
_ENTERED = frozenset({Function, Bound, Class})
_CONSTANTS = {str(one): value(Const(one)) for one in (True, False, None)}


def evaluate(run: RunState, node: cst.BaseExpression) -> Value:
    """The value of an expression, through the function for its type."""
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        return handler(run, node)
    for child in children(node):
        if isinstance(child, cst.BaseExpression):
            run.eval(child)
    return UNKNOWN


def _name(run: RunState, node: cst.Name) -> Value:
    known = _CONSTANTS.get(node.value)
    return run.lookup(node.value) if known is None else known


def _literal(run: RunState, node: cst.Integer | cst.Float | cst.SimpleString) -> Value:
    return _literal_value(type(node), node.value)


@lru_cache(maxsize=4096)
def _literal_value(kind: type[cst.BaseExpression], text: str) -> Value:
    """The value of a literal's text: Python's own evaluation of it costs as much as parsing."""
    literal = kind(text)  # type: ignore[call-arg]
    if isinstance(literal, cst.SimpleString):
        return value(Const(content(literal)))
    return value(Const(literal.evaluated_value))  # type: ignore[attr-defined]


def _concatenated(run: RunState, node: cst.ConcatenatedString) -> Value:
    run.eval(node.left)
    run.eval(node.right)
    return REPLICATED


def _formatted(run: RunState, node: cst.FormattedString) -> Value:
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            held = run.eval(part.expression)
            own_methods.as_text(run, part.expression, held)
            run.demand_held(part.expression, held, "an f-string")
    return REPLICATED


def _binary(run: RunState, node: cst.BinaryOperation) -> Value:
    left, right = run.eval(node.left), run.eval(node.right)
    operator = OPERATORS.get(type(node.operator), "?")
    if operator == "%" and isinstance(
        node.left, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
    ):
        run.demand_held(node.right, right, "a formatted string")
        return REPLICATED
    both = (node.left, left), (node.right, right)
    own = own_methods.of_two(run, node, operator, *both)
    return tensor_pairs.binary(run, node, operator, *both) if own is None else own


def _unary(run: RunState, node: cst.UnaryOperation) -> Value:
    operand = run.eval(node.expression)
    own = own_methods.of_one(run, node, operand)
    if own is not None:
        return own
    if isinstance(node.operator, cst.Not):
        run.demand(node.expression, operand, uses.A_CONDITION)
        own_methods.truth(run, node.expression, operand)
        truth = branch_tests.truth(run, node.expression, operand)
        return REPLICATED if truth is None else value(Const(not truth))
    if isinstance(node.operator, cst.Minus):
        constant = operand.constant()
        if isinstance(constant, (int, float)):
            return value(Const(-constant))
        operand = row_numbers.negated(operand)
    return row_numbers.shifted(one_tensor.fresh(operand))


def _boolean(run: RunState, node: cst.BooleanOperation) -> Value:
    left, right = run.eval(node.left), run.eval(node.right)
    run.demand(node.left, left, uses.A_CONDITION)
    run.demand(node.right, right, uses.A_CONDITION)
    truth = branch_tests.truth(run, node.left, left)
    if truth is None:
        return join(left, right)
    return left if truth is isinstance(node.operator, cst.Or) else right


def _comparison(run: RunState, node: cst.Comparison) -> Value:
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    values = run.eval_all(sides)
    own = own_methods.compared(run, node, values)
    if own is not None:
        return own
    identity = any(isinstance(t.operator, (cst.Is, cst.IsNot)) for t in node.comparisons)
    told = told_comparisons.told(run, node, values)
    if told is not None:
        return value(Const(told))
    if identity and not any(d.placement is Placement.COUNT for one in values for d in one.data):
        return REPLICATED
    if isinstance(node.comparisons[-1].operator, (cst.In, cst.NotIn)):
        return _membership(run, sides, values)
    known = _equal(run, node, values)
    if known is None and len(values) == 2 and values[1].constant() == 0:
        known = _of_none(run, node, values[0])
    return comparisons.compare(run, sides, values) if known is None else value(Const(known))


def _membership(run: RunState, sides: list[cst.BaseExpression], values: list[Value]) -> Value:
    """``x in rows`` asks all of them; ``"name" in batch`` asks a dictionary for its keys."""
    if isinstance(values[0].constant(), str):
        return REPLICATED
    for side, held in zip(sides, values, strict=True):
        run.demand(side, held, uses.A_MEMBERSHIP_TEST)
    return REPLICATED


def _equal(run: RunState, node: cst.Comparison, values: list[Value]) -> bool | None:
    """The truth of ``x.dim() == 3`` and the like."""
    left, right = values[0].constant(), values[1].constant()
    if left is ... or right is ... or len(values) != 2:
        return None
    operator = node.comparisons[0].operator
    if not isinstance(node.left, (cst.Call, cst.Attribute)):
        return None
    if isinstance(operator, (cst.Equal, cst.NotEqual)):
        return (left == right) is isinstance(operator, cst.Equal)
    return None


def _of_none(run: RunState, node: cst.Comparison, number: Value) -> bool | None:
    """The truth of ``x.numel() == 0`` and the like, of rows that are never none."""
    never = all(isinstance(a, Data) and tensor_pairs.is_never_zero(run, a) for a in number.atoms)
    if not number or not never or run.collating:
        return None
    for data in number.data:
        run.facts.sizes.shape_uses.update(data.definition_sites)
    operator = node.comparisons[0].operator
    if isinstance(operator, (cst.Equal, cst.LessThanEqual, cst.LessThan)):
        return False
    return True if isinstance(operator, (cst.NotEqual, cst.GreaterThan)) else None


def _conditional(run: RunState, node: cst.IfExp) -> Value:
    truth = branches.condition(run, node.test)
    truth = narrowing.decided(run, node.test) if truth is None else truth
    if truth is not None:
        return run.eval(node.body if truth else node.orelse)
    expected = branch_tests.by_defaults(run, node.test)
    body, other = run.eval(node.body), run.eval(node.orelse)
    placements = {d.placement for d in (*body.data, *other.data)}
    unknown = bool(body) != bool(other)  # what is not known may be that of all ranks
    apart = unknown or definition_sites.are_beside_whole(join(body, other))
    if apart or (body.data and other.data and len(placements) > 1):  # no one reduction suits both
        body, other = (
            definition_sites.given_as(body, node.body),
            definition_sites.given_as(other, node.orelse),
        )
    if expected is None and apart:
        body = definition_sites.rows_named(body, node.body)
        other = definition_sites.rows_named(other, node.orelse)
    return either(body, other) if expected is None else body if expected else other


def _tuple(run: RunState, node: cst.Tuple) -> Value:
    begun = [(key, item, len(run.batches_so_far)) for key, item in _displayed(run, node.elements)]
    held = [(key, current_batch.held_since(run, at, item)) for key, item, at in begun]
    if any(key == "*" for key, _ in held):
        return value(_holding(run, node, held))  # of any length: read as a list is
    return value(Tup(tuple(item for _, item in held)))


def _list(run: RunState, node: cst.List | cst.Set) -> Value:
    held = list(_displayed(run, node.elements))
    _take_all_of_several(run, node)
    made = _holding(run, node, held)
    if _is_one_spread(node):  # [*rows] is list(rows)
        shown = node.elements[0].value
        python_iterables.filled_from(run, made, shown, run.seen(shown))
    return value(made)


def _is_one_spread(node: cst.List | cst.Set) -> bool:
    alone = len(node.elements) == 1 and isinstance(node, cst.List)
    return alone and isinstance(node.elements[0], cst.StarredElement)


def _take_all_of_several(run: RunState, node: cst.List | cst.Set) -> None:
    """``[*rows, 1]``, or a set, has other items than a rank's rows: it takes those of all."""
    starred = [one.value for one in node.elements if isinstance(one, cst.StarredElement)]
    for one in starred if not _is_one_spread(node) and not run.collating else ():
        rows = (d for d in run.seen(one).data if d.placement is Placement.SHARD and d.dim == 0)
        run.demand(one, value(*(d for d in rows if d.form is Layout.TENSOR)), uses.A_STATISTIC)


def _holding(
    run: RunState, node: cst.BaseExpression, held: Iterable[tuple[str, Value]]
) -> Instance:
    made = run.instance(node, run.module, "list")
    for key, item in held:
        samples_by_place.put_into_list(run, node, item)
        run.put(made, key, item)
    return made


def _displayed(run: RunState, elements_: Sequence[cst.BaseElement]) -> Iterator[tuple[str, Value]]:
    """What a display holds, by position; behind a star whose length is not known, anywhere."""
    position: int | None = 0
    for element in elements_:
        item = run.eval(element.value)
        starred = isinstance(element, cst.StarredElement)
        several = [item]
        if starred and len(item.atoms) == 1 and isinstance(one := next(iter(item.atoms)), Tup):
            several = [*one.items]
        elif starred:
            position, several = None, [elements.collected(run, element.value, item)]
        for each in several:
            yield ("*" if position is None else f"[{position}]"), each
            position = None if position is None else position + 1


def _dict(run: RunState, node: cst.Dict) -> Value:
    made = run.instance(node, run.module, "dict")
    for pair in node.elements:
        item = definition_sites.kept(run.eval(pair.value), pair.value)
        if isinstance(pair, cst.DictElement):
            key = run.eval(pair.key).constant()
            run.put(made, "*" if key is ... else f"[{key!r}]", item)
            continue
        for source in item.of(Instance):
            for key, held in list(source.attributes.items()):
                run.put(made, key, held)
    return value(made)


def _lambda(run: RunState, node: cst.Lambda) -> Value:
    return value(run.function(node))


def _named(run: RunState, node: cst.NamedExpr) -> Value:
    result = assignments.defined(run, run.eval(node.value), node.value)
    assignments.assign(run, node.target, result)
    return result


def _yield(run: RunState, node: cst.Yield) -> Value:
    if isinstance(node.value, cst.From):
        source = run.eval(node.value.item)
        run.frame.returned.append(value(Tup((elements.iterate(run, node.value.item, source),))))
    elif node.value is not None:
        run.frame.returned.append(value(Tup((run.eval(node.value),))))
    return UNKNOWN


def _await(run: RunState, node: cst.Await) -> Value:
    return run.eval(node.expression)


def _call(run: RunState, node: cst.Call) -> Value:
    callee = run.eval(node.func)
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    enters = not _ENTERED.isdisjoint(map(type, callee.atoms))
    for arg in node.args:
        begun = len(run.batches_so_far)
        result = run.eval(arg.value)
        if len(run.batches_so_far) > begun:  # what earlier arguments hold is of an earlier batch
            args = [current_batch.held_since(run, begun, one) for one in args]
            kwargs = {k: current_batch.held_since(run, begun, one) for k, one in kwargs.items()}
        if enters and result.data:
            result = definition_sites.given_as(result, arg.value)
        if arg.star == "*":
            result = star_args.of_all_samples(run, arg.value, result) if enters else result
            left = star_args.open_parameters(callee, node, len(args))
            args.extend(star_args.spread(run, arg.value, result, left))
        elif arg.star == "**":
            left = star_args.open_parameters(callee, node, len(args), by_name=True)
            star_args.spread_keywords(run, result, kwargs, left)
        elif arg.keyword is not None:
            kwargs[arg.keyword.value] = result
        else:
            args.append(result)
    persistent_state.method(run, node, args, kwargs)
    return run.call(node, callee, args, kwargs)


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
    cst.ListComp: comprehensions.comprehension,
    cst.SetComp: comprehensions.comprehension,
    cst.GeneratorExp: comprehensions.comprehension,
    cst.DictComp: comprehensions.comprehension,
    cst.Lambda: _lambda,
    cst.NamedExpr: _named,
    cst.Yield: _yield,
    cst.Await: _await,
    cst.Call: _call,
}
