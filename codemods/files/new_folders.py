"""Folders that must be new: where one is there already, an error handler decides what comes."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, dotted

_FOUND = frozenset({"FileExistsError", "OSError", "IOError", "EnvironmentError", "Exception",
                    "BaseException", "error"})  # fmt: skip


def accepted(plan: Plan, edits: Edits, effect: Effect, site: Site) -> str | None:
    """What ``exist_ok`` must be; None if it cannot be told.

    Where the script goes by an error, rank 0 looks before any rank makes the folder: all ranks
    fail on a folder that was there before, and none on one that another rank has just made.
    """
    if not _decides(site):
        return "True"
    asked = _question(effect, site)
    if asked is not None and _is_asked_before(site, asked):
        return "True"
    if asked is None or not on_all_ranks(plan, edits, site):
        return None
    return f"not {plan.options.alias}.broadcast({asked})"


def _decides(site: Site) -> bool:
    """Whether a handler, or what stands below in the ``try``, goes by a folder that is there."""
    structure = site.module.structure
    statement = structure.statement(site.node)
    for node in structure.up(site.node):
        if not isinstance(node, cst.Try) or node.body not in structure.up(site.node):
            continue
        handlers = [one for one in node.handlers if _takes_it(one)]
        last = node.body.body[-1] is statement and node.orelse is None
        if handlers and not (last and all(map(_does_nothing, handlers))):
            return True
    return False


def _takes_it(handler: cst.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(n, cst.Name) and n.value in _FOUND for n in walk(handler.type))


def _does_nothing(handler: cst.ExceptHandler) -> bool:
    """``pass``, or the error again if it is another one."""
    parts = [part for node in walk(handler.body) for part in _parts(node)]
    return all(isinstance(part, cst.Pass) or _is_again(part) or _is_text(part) for part in parts)


def _parts(node: cst.CSTNode) -> list[cst.BaseSmallStatement]:
    lines = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    return list(node.body) if isinstance(node, lines) else []


def _is_again(part: cst.BaseSmallStatement) -> bool:
    return isinstance(part, cst.Raise) and part.exc is None


def _is_text(part: cst.BaseSmallStatement) -> bool:
    plain = (cst.SimpleString, cst.Ellipsis)
    return isinstance(part, cst.Expr) and isinstance(part.value, plain)


def _question(effect: Effect, site: Site) -> str | None:
    """The expression that asks for the folder, if its path may be written a second time."""
    path, call = path_of(effect), site.node
    assert isinstance(call, cst.Call)
    if path is None or not all(map(_is_repeatable, walk(path))):
        return None
    name = dotted(call.func) or ""
    if name.startswith("os."):
        return f"os.path.exists({code_of(path)})"
    of_path = isinstance(call.func, cst.Attribute) and call.func.value is path
    return f"{code_of(path)}.exists()" if of_path else None


def _is_asked_before(site: Site, asked: str) -> bool:
    """Whether a condition around it asks for the folder: the answer is rank 0's on all ranks."""
    around = site.module.structure.up(site.node)
    return any(isinstance(one, cst.If) and asked in code_of(one.test) for one in around)


def _is_repeatable(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return True
    name = dotted(node.func) or ""
    return name.startswith("os.path.") or name in ("str", "Path", "pathlib.Path")
