"""What each kind of statement does."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites
from ddpify.understanding.arithmetic import row_writes
from ddpify.understanding.batching import current_batch
from ddpify.understanding.language import (
    assertions,
    assignments,
    branches,
    definitions,
    imports,
    loops,
    set_attributes,
)
from ddpify.understanding.libraries import (
    container_methods,
    entered_contexts,
    object_kinds,
    runtime_names,
)
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.values import Const, Instance, QualifiedName, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_EXITS = frozenset(("sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort"))


def execute(run: RunState, node: cst.BaseStatement) -> bool:
    """Run one statement; whether the next one is reached."""
    if run.choices.switches and node in run.choices.switches:
        current_batch.switched(run, node, run.choices.switches[node])
    if type(node) is cst.SimpleStatementLine:
        if run.choices.replicated_statements and node in run.choices.replicated_statements:
            with run.with_all_replicated():
                return _line(run, node)
        return _line(run, node)
    return _reaches_end(run, node)


def _line(run: RunState, node: cst.SimpleStatementLine) -> bool:
    for small in node.body:  # noqa: SIM110  (a generator takes longer)
        if not _reaches_end(run, small):
            return False
    return True


def _reaches_end(run: RunState, node: cst.CSTNode) -> bool:
    handler = _HANDLERS.get(type(node))
    return handler is None or handler(run, node) is not False


def _expression(run: RunState, node: cst.Expr) -> bool:
    run.eval(node.value)
    return not (isinstance(node.value, cst.Call) and _ends_process(run, node.value.func))


def _ends_process(run: RunState, called: cst.BaseExpression) -> bool:
    """``sys.exit``, ``exit``: what stands behind such a call is not reached."""
    known = run.facts.values.get(called)
    return (
        known is not None
        and bool(known.atoms)
        and all(isinstance(one, QualifiedName) and one.name in _EXITS for one in known.atoms)
    )


def _return(run: RunState, node: cst.Return) -> bool:
    result = run.eval(node.value) if node.value is not None else value(Const(None))
    if node.value is not None:
        result = definition_sites.given_as(result, node.value)
    frame = run.frame
    set_attributes.note_end(frame)
    (frame.returned_against if frame.against_default else frame.returned).append(result)
    return False


def _raise(run: RunState, node: cst.Raise) -> bool:
    if node.exc is not None:
        run.eval(node.exc)
    return False


def _leave(run: RunState, node: cst.Break | cst.Continue) -> bool:
    return loops.leave(run, ends=isinstance(node, cst.Break))


def _assert(run: RunState, node: cst.Assert) -> None:
    assertions.check(run, node.test)


def _shared(run: RunState, node: cst.Global | cst.Nonlocal) -> None:
    run.frame.scope.shared |= {item.name.value for item in node.names}


def _delete(run: RunState, node: cst.Del) -> None:
    if isinstance(node.target, cst.Name):
        run.frame.scope.names.pop(node.target.value, None)
    elif isinstance(node.target, cst.Subscript):
        _delete_item(run, node.target)


def _delete_item(run: RunState, target: cst.Subscript) -> None:
    """``del items[0]``: of a list of samples, it is that of one process only among all of them."""
    owner = run.eval(target.value)
    if not owner.data and not run.collating:
        run.eval(target)
        bounds.count_sizes(run, bounds.of_slices(target))
    for data in owner.data if not run.collating else ():
        if data.placement is Placement.SHARD:
            row_writes.write_into_all(run, target.value, data)
    for atom in owner.of(Instance):
        if atom.type == "list":
            container_methods.of_container(run, target, atom, "pop", [], {})


def _with(run: RunState, node: cst.With) -> bool:
    silent = replicated = False
    for item in node.items:
        result = run.eval(item.item)
        silent |= _is_one_of(result, object_kinds.NO_GRAD)
        replicated |= _is_one_of(result, (runtime_names.ALL_REPLICATED,))
        if item.asname is not None:
            assignments.assign(
                run, item.asname.name, entered_contexts.bound(run, item.item, result)
            )
    with run.without_grad(silent), run.with_all_replicated(replicated):
        return run.block(node.body)


def _is_one_of(context: Value, types: Container[object]) -> bool:
    """Whether a context manager may be of one of these types."""
    return any(isinstance(a, Instance) and a.type in types for a in context.atoms)


# Each tells by False that the statement behind is not reached.
_HANDLERS: dict[type, Callable[..., bool | None]] = {
    cst.Expr: _expression,
    cst.Assign: assignments.plain,
    cst.AnnAssign: assignments.annotated,
    cst.AugAssign: assignments.augmented,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Break: _leave,
    cst.Continue: _leave,
    cst.Assert: _assert,
    cst.Global: _shared,
    cst.Nonlocal: _shared,
    cst.Del: _delete,
    cst.Import: imports.plain,
    cst.ImportFrom: imports.from_module,
    cst.FunctionDef: definitions.function,
    cst.ClassDef: definitions.class_,
    cst.If: branches.if_,
    cst.For: loops.for_,
    cst.While: loops.while_,
    cst.With: _with,
    cst.Try: branches.try_,
    cst.Match: branches.match,
}
