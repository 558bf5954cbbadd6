"""A condition, as code that asks the same earlier in the block that it stands in."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, dotted, names_of

_PURE = (
    cst.Integer,
    cst.Float,
    cst.SimpleString,
    cst.BooleanOperation,
    cst.Comparison,
    cst.BinaryOperation,
    cst.UnaryOperation,
)
_CLOSED = (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer)
_SETTING = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)
_CALLS = ("len", "int")


class Earlier:
    """What expressions at ``there`` are, as code for before ``here``, in one block of statements.

    Attributes:
        varies: Whether anything that was asked for changes within the block.
    """

    def __init__(
        self,
        project: Project,
        module: ModuleFile,
        around: cst.For | cst.While | cst.FunctionDef,
        here: cst.CSTNode,
        there: cst.CSTNode,
    ) -> None:
        self.project = project
        self.module = module
        self.around = around
        order = module.structure.order
        self.between = range(order[here], order[there])
        self.varies = False

    def code(self, node: cst.BaseExpression) -> str | None:
        """The code for an expression; None where none is sure to give the same."""
        leaves = list(_leaves(node))
        found: dict[cst.CSTNode, str] = {}
        for leaf in leaves:
            if leaf is None:
                return None
            code = self._leaf(leaf)
            if code is None:
                return None
            found[leaf] = code
        changed = node.visit(_Replacing(found))
        assert isinstance(changed, cst.BaseExpression)
        return code_of(changed)

    def _leaf(self, leaf: cst.BaseExpression) -> str | None:
        """Code for a name, an attribute or an item of a constant key."""
        key = code_of(leaf)
        stores = [store for store in _stores(self.around) if code_of(store) == key]
        self.varies |= bool(stores)
        if self._changes_elsewhere(leaf):
            return None
        order = self.module.structure.order
        between = [store for store in stores if order[store] in self.between]
        if not between:
            return key
        return self._before(key, between[0]) if len(between) == 1 else None

    def _before(self, key: str, store: cst.CSTNode) -> str | None:
        """Code for what a name is after the one statement that sets it."""
        structure = self.module.structure
        line = structure.statement(store)
        if structure.parents.get(line) is not self.around.body:
            return None
        small = structure.parents[store]
        if isinstance(small, cst.AssignTarget):
            small = structure.parents[small]
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            code = self.code(small.value)
            return None if code is None else f"({code})"
        if not isinstance(small, cst.AugAssign) or not isinstance(small.value, cst.Integer):
            return None
        signs = {cst.AddAssign: "+", cst.SubtractAssign: "-"}
        sign = signs.get(type(small.operator))
        return f"({key} {sign} {small.value.value})" if sign else None

    def _changes_elsewhere(self, leaf: cst.BaseExpression) -> bool:
        """Whether other functions may set it while the block runs."""
        name = leaf
        while isinstance(name, cst.Subscript):
            name = name.value
        if isinstance(name, cst.Name):
            shared = self.module.structure.all(cst.Global, cst.Nonlocal)
            return any(name.value == one.name.value for line in shared for one in line.names)
        assert isinstance(name, cst.Attribute)
        own = self.module.structure.function(self.around.body)
        return any(
            store.attr.value == name.attr.value and not _is_own_start(file, store, own)
            for file in self.project.files
            for store in file.structure.all(cst.Attribute)
            if isinstance(file.parents[store], (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))
        )


class _Replacing(cst.CSTTransformer):
    def __init__(self, found: dict[cst.CSTNode, str]) -> None:
        super().__init__()
        self.found = found

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.found

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        code = self.found.get(original_node)
        return updated_node if code is None else cst.parse_expression(code)


def negated(test: cst.BaseExpression, code: str) -> str:
    """Code for the contrary of a condition: ``a == b`` for ``a != b``, else ``not (...)``."""
    opposite = {cst.NotEqual: cst.Equal(), cst.Equal: cst.NotEqual()}
    changed = cst.parse_expression(code)
    if isinstance(changed, cst.Comparison) and len(changed.comparisons) == 1:
        operator = opposite.get(type(changed.comparisons[0].operator))
        if operator is not None:
            only = changed.comparisons[0].with_changes(operator=operator)
            return code_of(changed.with_changes(comparisons=[only]))
    return f"not ({code})"


def operand(node: cst.BaseExpression, code: str) -> str:
    """Code to stand beside an operator."""
    return code if isinstance(node, _CLOSED) or node.lpar else f"({code})"


def _is_own_start(file: ModuleFile, store: cst.CSTNode, own: cst.FunctionDef | None) -> bool:
    """Whether an attribute is set where objects are made, or in the function itself."""
    function = file.structure.function(store)
    return function is own or (function is not None and function.name.value == "__init__")


def _leaves(node: cst.BaseExpression) -> Iterator[cst.BaseExpression | None]:
    """The names and attributes that an expression is made of; None for what may do anything."""
    if isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and dotted(node)):
        if code_of(node) not in ("True", "False", "None"):
            yield node
    elif isinstance(node, cst.Subscript) and dotted(node.value) and _has_constant_key(node):
        yield node
    elif isinstance(node, cst.Call) and dotted(node.func) in _CALLS and len(node.args) == 1:
        yield from _leaves(node.args[0].value)
    elif isinstance(node, _PURE):
        parts = (
            one for one in node.children if not isinstance(one, cst.BaseParenthesizableWhitespace)
        )
        for part in parts:
            target = part.comparator if isinstance(part, cst.ComparisonTarget) else part
            if isinstance(target, cst.BaseExpression):
                yield from _leaves(target)
    else:
        yield None


def _has_constant_key(node: cst.Subscript) -> bool:
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)


def _stores(around: cst.For | cst.While | cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """What a block sets, with the target of its loop or the parameters of its function."""
    if isinstance(around, cst.For):
        yield from names_of(around.target)
    if isinstance(around, cst.FunctionDef):
        parameters = around.params
        yield from (one.name for one in (*parameters.params, *parameters.kwonly_params))
    for node in walk(around.body):
        if isinstance(
            node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)
        ):
            yield from names_of(node.target)
        elif isinstance(node, cst.AsName) and isinstance(node.name, cst.BaseExpression):
            yield from names_of(node.name)
