"""Import the runtime helper and start the process group before anything else happens."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from ddpify.codemods.launch import import_actions
from ddpify.codemods.launch.first_action import first_action

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted, is_main_guard

_IMPORTS = (cst.Import, cst.ImportFrom)
_STARTS_NOTHING = "this file starts nothing by itself: begin the script that calls it with"


def edit(plan: Plan, edits: Edits) -> None:
    """Add the start to each script, and the import to what uses it; run after other codemods."""
    entries = plan.project.entries
    imported = [file for file in plan.project.files if file not in entries]
    early = any(_calls_helper(plan, edits, m) or import_actions.acts(plan, m) for m in imported)
    for module in plan.editable:
        if module in entries:
            first = (early and _first_own_import(plan, module)) or first_action(plan, module)
            _import(plan, edits, module, first)
            _start(plan, edits, module, first)
        elif edits.change_in(module):
            _import(plan, edits, module, None)


def _start(plan: Plan, edits: Edits, module: ModuleFile, first: cst.CSTNode | None) -> None:
    body = module.tree.body
    start = plan.options.start_line + "\n"
    guard = next((s for s in body if isinstance(s, cst.If) and is_main_guard(s.test)), None)
    if guard is not None and first is guard and isinstance(guard.body, cst.IndentedBlock):
        edits.insert_before(guard.body.body[0], start)
    elif first is not None:
        edits.insert_before(first, start)
    elif body:
        text = f"{_STARTS_NOTHING} {plan.options.start_line}"
        edits.note(plan.site(body[0]), text, attention=True)


def _import(plan: Plan, edits: Edits, module: ModuleFile, first: cst.CSTNode | None) -> None:
    """Import the helper, if the changes use it, and what else they need."""
    body = module.tree.body
    needed = sorted(edits.imports.get(module, ()))
    lines = [f"import {name}" for name in needed if not _imports(body, name)]
    if module in plan.project.entries or _uses(edits.apply(module), plan.options.alias):
        lines.append(plan.options.import_line)
    _insert_imports(edits, body, _after_imports(body, first), lines)


def _calls_helper(plan: Plan, edits: Edits, module: ModuleFile) -> bool:
    """Whether a module calls the helper as it is imported: the group must have started before."""
    if not module.editable or not edits.change_in(module):
        return False
    todo: list[cst.CSTNode] = list(edits.apply(module).body)
    while todo:
        node = todo.pop()
        if isinstance(node, cst.FunctionDef):
            todo += [node.params, *node.decorators]
        elif isinstance(node, cst.If) and is_main_guard(node.test):
            continue
        elif isinstance(node, cst.Name) and node.value == plan.options.alias:
            return True
        elif not isinstance(node, (cst.Lambda, *_IMPORTS)):
            todo += node.children
    return False


def _first_own_import(plan: Plan, module: ModuleFile) -> cst.CSTNode | None:
    """The first top-level statement that imports a module of the project, if one does."""
    for statement in module.tree.body:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if any(plan.project.resolve(*name) for name in _imported(part, module)):
                return statement
    return None


def _imported(
    part: cst.BaseSmallStatement, module: ModuleFile
) -> list[tuple[str, ModuleFile, int]]:
    """The modules that an import may read, with the file that imports them and the level."""
    if isinstance(part, cst.Import):
        return [(dotted(alias.name) or "", module, 0) for alias in part.names]
    if not isinstance(part, cst.ImportFrom):
        return []
    base, level = (dotted(part.module) or "") if part.module else "", len(part.relative)
    names = () if isinstance(part.names, cst.ImportStar) else part.names
    inner = [".".join(filter(None, (base, dotted(alias.name)))) for alias in names]
    return [(name, module, level) for name in (base, *inner) if name]


def _uses(tree: cst.Module, alias: str) -> bool:
    return any(isinstance(node, cst.Name) and node.value == alias for node in walk(tree))


def _after_imports(body: Sequence[cst.CSTNode], first: cst.CSTNode | None) -> int:
    """The index after the last import before the first action, else after the docstring."""
    place = 0
    for index, statement in enumerate(body):
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
