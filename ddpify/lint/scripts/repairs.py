"""Edits that several rules make."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix
from ddpify.lint.scripts.control import Control
from ddpify.lint.scripts.group_state import is_joined
from ddpify.lint.scripts.sharded_values import Reading
from ddpify.understanding.libraries import runtime_names
from ddpify.understanding.syntax import code_of, dotted


def spelled(script: Reading, module: str) -> str | None:
    """How the file's top level writes a library module, such as ``dist``; None: it cannot."""
    parent, _, last = module.rpartition(".")
    for statement in script.module.tree.body:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.Import):
                for alias in part.names:
                    name = dotted(alias.name)
                    own = alias.asname.name if alias.asname is not None else None
                    if name == module:
                        return own.value if isinstance(own, cst.Name) else module
                    if name == "torch" and own is None and module.startswith("torch."):
                        fallback: str | None = module
                        return _imported_from(script, parent, last) or fallback
            elif isinstance(part, cst.ImportFrom):
                found = _name_in(part, parent, last)
                if found:
                    return found
    return None


def _imported_from(script: Reading, parent: str, last: str) -> str | None:
    """``dist`` of ``import torch.distributed as dist`` or ``from torch import distributed``."""
    for part in script.structure.all(cst.Import, cst.ImportFrom):
        if script.structure.function(part) is not None:
            continue
        if isinstance(part, cst.ImportFrom):
            found = _name_in(part, parent, last)
            if found:
                return found
            continue
        for alias in part.names:
            if dotted(alias.name) == f"{parent}.{last}" and alias.asname is not None:
                return alias.asname.name.value if isinstance(alias.asname.name, cst.Name) else None
    return None


def _name_in(part: cst.ImportFrom, parent: str, last: str) -> str | None:
    if part.module is None or part.relative or isinstance(part.names, cst.ImportStar):
        return None
    if dotted(part.module) != parent:
        return None
    for alias in part.names:
        if dotted(alias.name) == last:
            own = alias.asname.name if alias.asname is not None else alias.name
            return own.value if isinstance(own, cst.Name) else None
    return None


def runtime(script: Reading) -> str | None:
    """How the file writes ddpify's runtime, such as ``dd``; None where it does not import it."""
    return spelled(script, runtime_names.MODULE) or spelled(script, runtime_names.VENDORED)


def import_of(script: Reading, module: str) -> tuple[str, tuple[Edit, ...]]:
    """How the file writes a module of the standard library, and the import where it has none."""
    name = spelled(script, module)
    if name is not None:
        return name, ()
    for statement in script.module.tree.body:
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(
            statement.body[0], (cst.Import, cst.ImportFrom)
        ):
            first = statement.body[0]
            if isinstance(first, cst.ImportFrom) and code_of(first).startswith("from __future__"):
                continue
            start = script.positions.offsets(statement)[0]
            line = f"import {module}{script.module.tree.default_newline}"
            return module, (Edit(start, start, line),)
    return module, ()


def on_rank_zero(control: Control, node: cst.CSTNode, what: str) -> Fix | None:
    """Put a statement of its own under a test for rank 0; None where that is not so simple, or
    where it is not known that a process group is there to be asked.
    """
    script = control.script
    line = script.structure.statement(node)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    if not isinstance(line.body[0], cst.Expr):
        return None
    test = _is_rank_zero(script)
    if test is None or not (runtime(script) is not None or is_joined(control, node)):
        return None
    start = script.positions.offsets(line.body[0])[0]
    indent = script.positions.indentation(line.body[0])
    if script.positions.line_start(line.body[0]) + len(indent) != start:
        return None
    newline = script.module.tree.default_newline
    head = f"if {test}:{newline}{indent}{step(script)}"
    return Fix(f"{what} on rank 0 alone", (Edit(start, start, head),), Applicability.SAFE)


def _is_rank_zero(script: Reading) -> str | None:
    """A test for rank 0, as the file can write it."""
    dd = runtime(script)
    if dd is not None:
        return f"{dd}.is_main()"
    dist = spelled(script, "torch.distributed")
    return f"{dist}.get_rank() == 0" if dist is not None else None


def step(script: Reading) -> str:
    """One step of the file's own indentation."""
    return script.module.tree.default_indent


def at_head_of(script: Reading, block: cst.BaseSuite, code: str) -> Edit | None:
    """Insert a statement as the first of a block."""
    if not isinstance(block, cst.IndentedBlock) or not block.body:
        return None
    first: cst.CSTNode = block.body[0]
    start = script.positions.offsets(first)[0]
    indent = script.positions.indentation(first)
    return Edit(start, start, f"{code}{script.module.tree.default_newline}{indent}")


def before(script: Reading, node: cst.CSTNode, code: str) -> Edit | None:
    """Insert a statement above the one that a node stands in; None in the middle of a line."""
    statement = script.structure.statement(node)
    if not isinstance(statement, (cst.SimpleStatementLine, cst.With)):
        return None
    indent = script.positions.indentation(statement)
    start = script.positions.line_start(statement) + len(indent)
    if start != script.positions.offsets(statement)[0]:
        return None
    return Edit(start, start, f"{code}{script.module.tree.default_newline}{indent}")


def add_argument(
    script: Reading,
    call: cst.Call,
    code: str,
    title: str,
    applicability: Applicability = Applicability.SAFE,
) -> Fix:
    """Append an argument to a call."""
    if not call.args:
        end = script.positions.offsets(call)[1] - 1
        return Fix(title, (Edit(end, end, code),), applicability)
    last = call.args[-1]
    end = script.positions.offsets(last)[1]
    if last.star == "**":  # what is named must stand before it
        start = script.positions.offsets(last)[0]
        return Fix(title, (Edit(start, start, f"{code}, "),), applicability)
    return Fix(title, (Edit(end, end, f", {code}"),), applicability)


def drop_argument(script: Reading, call: cst.Call, argument: cst.Arg) -> Edit:
    """Remove an argument and the comma that belongs to it."""
    position = list(call.args).index(argument)
    begin, end = script.positions.offsets(argument)
    if position + 1 < len(call.args):
        return Edit(begin, script.positions.offsets(call.args[position + 1])[0], "")
    if position:
        return Edit(script.positions.offsets(call.args[position - 1])[1], end, "")
    return Edit(begin, end, "")


def drop_arguments(script: Reading, call: cst.Call, *names: str) -> list[Edit]:
    """Remove the keyword arguments of these names; the others stay as they are written."""
    kept = [a for a in call.args if a.keyword is None or a.keyword.value not in names]
    if len(kept) == len(call.args):
        return []
    edits: list[Edit] = []
    last_kept = 0
    for argument in call.args:
        if argument not in kept:
            continue
        position = call.args.index(argument)
        if position > last_kept:
            edits.append(_gap(script, call, last_kept, position))
        last_kept = position + 1
    if last_kept < len(call.args):
        begin = call.args[last_kept - 1] if last_kept else call.args[0]
        start, end = script.positions.offsets(begin)
        stop = script.positions.offsets(call.args[-1])[1]
        edits.append(Edit(end if last_kept else start, stop, ""))
    return edits


def _gap(script: Reading, call: cst.Call, first: int, following: int) -> Edit:
    """Remove the arguments from one position up to another, which stays."""
    start = script.positions.offsets(call.args[first])[0]
    return Edit(start, script.positions.offsets(call.args[following])[0], "")
