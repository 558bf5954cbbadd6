"""Small questions asked of LibCST trees, without its visitors, which cost more than the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

_EMPTY_MODULE = cst.Module(body=())

OPERATORS: dict[type, str] = {
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/", cst.FloorDivide: "//",
    cst.Modulo: "%", cst.Power: "**", cst.MatrixMultiply: "@",
    cst.BitAnd: "&", cst.BitOr: "|", cst.BitXor: "^",
    cst.AddAssign: "+", cst.SubtractAssign: "-", cst.MultiplyAssign: "*", cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//", cst.ModuloAssign: "%", cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@", cst.BitAndAssign: "&", cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
}  # fmt: skip


def code_of(node: cst.CSTNode) -> str:
    """The source text of one node."""
    return _EMPTY_MODULE.code_for_node(node)


def bare_code(node: cst.BaseExpression) -> str:
    """The source text of an expression without parentheses around it."""
    needed = isinstance(node, (cst.GeneratorExp, cst.Tuple))
    return code_of(node if needed else node.with_changes(lpar=(), rpar=()))


def operand_code(node: cst.BaseExpression) -> str:
    """The source text of an expression as an operand: in parentheses where it may need them."""
    number = node.expression if isinstance(node, cst.UnaryOperation) else node  # as in -100
    whole = isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    return (
        code_of(node)
        if whole or node.lpar or isinstance(number, cst.BaseNumber)
        else f"({code_of(node)})"
    )


def brief(node: cst.CSTNode) -> str:
    """The source text of one node in one line of at most 50 characters, to name it in a note."""
    code = bare_code(node) if isinstance(node, cst.BaseExpression) else code_of(node)
    text = " ".join(code.split())
    return text if len(text) <= 50 else text[:47] + "..."


def dotted(node: cst.BaseExpression) -> str | None:
    """``a.b.c`` of a chain of names, None for anything else."""
    if type(node) is cst.Name:  # what isinstance() says, which is slow to deny it of a node
        return node.value
    if type(node) is cst.Attribute:
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else None
    return None


def statements(body: cst.BaseSuite | cst.Module) -> Sequence[cst.BaseStatement]:
    """The statements of a block; a one-line block is one statement line."""
    if type(body) is cst.SimpleStatementSuite:
        return (cst.SimpleStatementLine(body=body.body),)
    return body.body  # type: ignore[return-value]


def content(text: cst.SimpleString) -> str | bytes:
    """What a string literal holds: most are plain, and Python's own evaluation takes as long as
    parsing.
    """
    plain = not text.prefix and "\\" not in text.raw_value and "\r" not in text.raw_value
    return text.raw_value if plain else text.evaluated_value


def is_main_guard(test: cst.BaseExpression) -> bool:
    """Whether this is the condition ``__name__ == "__main__"``."""
    if type(test) is not cst.Comparison or len(test.comparisons) != 1:
        return False
    sides = (test.left, test.comparisons[0].comparator)
    named = any(isinstance(side, cst.Name) and side.value == "__name__" for side in sides)
    literal = any(
        isinstance(side, cst.SimpleString) and content(side) == "__main__" for side in sides
    )
    return named and literal and isinstance(test.comparisons[0].operator, cst.Equal)


UNPACKED = (cst.Tuple, cst.List)  # several targets: ``a, b = pair`` and ``[a, b] = pair``


def names_of(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The single targets of an assignment to one name or to several."""
    if isinstance(target, UNPACKED):
        for element in target.elements:
            yield from names_of(element.value)
    else:
        yield target


def displayed(node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """The parts of a tuple, list or dictionary that stands here; None for anything else."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
        return [element.value for element in node.elements]
    return None


_DIVIDING = frozenset("div div_ divide divide_ true_divide".split())


def divisor(node: cst.CSTNode) -> cst.BaseExpression | None:
    """``n`` of ``x / n``, ``x /= n`` and ``x.div(n)``; None for anything else."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        return node.right
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.DivideAssign):
        return node.value
    method = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    if method and node.args and node.func.attr.value in _DIVIDING:  # type: ignore[attr-defined]
        return node.args[0].value  # type: ignore[attr-defined,no-any-return]
    return None


def called_model(callee: cst.BaseExpression) -> cst.BaseExpression:
    """The model of ``model.forward(x)``, which is a call of it as ``model(x)`` is."""
    if isinstance(callee, cst.Attribute) and callee.attr.value == "forward":
        return callee.value
    return callee


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument with a name, or at a position (from 0); None where it is not given."""
    for one in call.args:
        if one.keyword is not None and one.keyword.value == name:
            return one
    positional = [a for a in call.args if a.keyword is None]
    if position is None or any(a.star for a in positional[: position + 1]):
        return None
    return positional[position] if position < len(positional) else None


def parameters(function: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    """The named parameters of a function, in order."""
    given = function.params
    return [*given.posonly_params, *given.params, *given.kwonly_params]


def spreads(call: cst.Call) -> bool:
    """Whether a call has ``*args`` or ``**kwargs``, so that not all arguments are seen."""
    return any(one.star for one in call.args)


def indices_of(node: cst.Subscript) -> list[cst.BaseExpression]:
    """The index expressions of a subscript, without slices."""
    return [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
