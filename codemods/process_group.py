"""Import the runtime helper and start the process group before anything else happens."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import dotted, is_main_guard, walk

_IMPORTS = (cst.Import, cst.ImportFrom)


def edit(plan: Plan, edits: Edits) -> None:
    """Add the import and the call; run it after the other codemods."""
    body = plan.module.tree.body
    alias = plan.options.alias
    guard = next((s for s in body if isinstance(s, cst.If) and is_main_guard(s.test)), None)
    first = _first_action(plan)
    place = _after_imports(plan, first)
    lines = [f"import {name}" for name in sorted(edits.imports) if not _imports(body, name)]
    _insert_imports(edits, body, place, [*lines, plan.options.import_line])
    start = f"{alias}.init()\n"
    if guard is not None and first is guard:
        inner = guard.body.body[0]
        if isinstance(guard.body, cst.IndentedBlock):
            edits.insert_before(inner, start)
            return
    if first is None:
        return
    edits.insert_before(first, start)


def _first_action(plan: Plan) -> cst.CSTNode | None:
    """The first top-level statement that does anything but import and define."""
    for statement in plan.module.tree.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        if isinstance(statement, cst.SimpleStatementLine):
            if all(isinstance(part, _IMPORTS) for part in statement.body):
                continue
            if not any(isinstance(n, cst.Call) for n in walk(statement)):
                continue
        if isinstance(statement, cst.Try) and _only_imports(statement):
            continue
        return statement
    return None


def _only_imports(statement: cst.Try) -> bool:
    return any(isinstance(n, _IMPORTS) for n in walk(statement.body)) and not any(
        isinstance(n, cst.Call) for n in walk(statement.body)
    )


def _after_imports(plan: Plan, first: cst.CSTNode | None) -> int:
    """The index after the last import before the first action, else after the docstring."""
    place = 0
    for index, statement in enumerate(plan.module.tree.body):
        if statement is first:
            break
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(
            statement.body[0], _IMPORTS
        ):
            place = index + 1
        elif index == 0 and _is_docstring(statement):
            place = 1
    return place


def _is_docstring(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _imports(body: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether a plain ``import name`` stands at top level."""
    return any(
        isinstance(part, cst.Import)
        and any(dotted(a.name) == name and a.asname is None for a in part.names)
        for statement in body
        if isinstance(statement, cst.SimpleStatementLine)
        for part in statement.body
    )


def _insert_imports(
    edits: Edits, body: Sequence[cst.CSTNode], place: int, lines: list[str]
) -> None:
    for line in lines:
        if place:
            edits.insert_after(body[place - 1], line + "\n")
        else:
            edits.insert_before(body[0], line + "\n")
