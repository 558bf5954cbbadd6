"""A model is moved or cast after DistributedDataParallel wrapped it.

## What it does
Looks for `.to()`, `.cuda()`, `.half()` and the like on a wrapped model, and on the module that was
wrapped, after the wrap.

## Why is this bad
DDP registers its hooks on the parameters that it finds when it is made. A cast or a move can
replace what they accumulate into: gradients are then no longer averaged, without any error, and
the ranks drift apart.

## Example
```python
late = DDP(Net())
late.to(device)
```

## Use instead
```python
late = DDP(Net().to(device), device_ids=[local_rank])
```

## Also fine
Outputs may be cast, and a model that was moved before can be told its device again.
```python
out = model(torch.zeros(1, 10)).float()
model.to(device)
```

## Fix safety
Unsafe: what was made of the model between the two may hold its old parameters.

## References
https://github.com/pytorch/pytorch/issues/104336
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import Const, Device

_CASTS = frozenset({"half", "double", "bfloat16"})
_MOVES = frozenset({"to", "cuda", "xpu"})


@rule(
    "moved-or-cast-after-wrap",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Moves and casts of wrapped models."""
    for wrap in script.wraps:
        if wrap.wrapper.type != DDP:
            continue
        moved: set[str] = set()
        for call in _moves_after(script, wrap):
            where = script.code(call, 200)
            if where in moved or not _matters(script, wrap, call):
                continue  # it is there by then
            moved.add(where)
            if script.owners.get(call) is script.module:
                yield Finding(
                    call,
                    "moved or cast after DistributedDataParallel wrapped it: gradients may no"
                    " longer be averaged, without an error",
                    _fix(script, wrap, call),
                )


def _fix(script: Script, wrap: Wrap, call: cst.Call) -> Fix | None:
    """Move or cast what is wrapped, where both stand in one block or in one expression."""
    given = argument(wrap.call, "module", 0)
    if given is None or not isinstance(call.func, cst.Attribute):
        return None
    removed = _without(script, wrap, call)
    if removed is None or not isinstance(given.value, (cst.Name, cst.Attribute, cst.Call)):
        return None
    arguments = ", ".join(code_of(one).rstrip(", ") for one in call.args)
    end = script.positions.offsets(given.value)[1]
    moved = Edit(end, end, f".{call.func.attr.value}({arguments})")
    title = f"call {call.func.attr.value}() before the model is wrapped"
    return Fix(title, (moved, removed), Applicability.UNSAFE)


def _without(script: Script, wrap: Wrap, call: cst.Call) -> Edit | None:
    """Take the call away: the end of ``DDP(net).half()``, or a statement of its own."""
    assert isinstance(call.func, cst.Attribute)
    start, end = script.positions.offsets(call)
    if call.func.value is wrap.call:
        return Edit(script.positions.offsets(wrap.call)[1], end, "")
    structure, line = script.structure, script.structure.statement(call)
    made = structure.statement(wrap.call)
    if not isinstance(line, cst.SimpleStatementLine) or made is None or len(line.body) != 1:
        return None
    block = structure.parents.get(line)
    if block is not structure.parents.get(made) or not isinstance(line.body[0], cst.Expr):
        return None
    if line.body[0].value is not call or not isinstance(block, (cst.IndentedBlock, cst.Module)):
        return None
    if _is_set_between(block, made, line, call):
        return None
    start, end = script.positions.offsets(line.body[0])
    begin = script.positions.line_start(line.body[0])
    rest = script.module.source.text[end:]
    newline = script.module.tree.default_newline
    if not rest.startswith(newline) or script.module.source.text[begin:start].strip():
        return None
    return Edit(begin, end + len(newline), "")


def _is_set_between(
    block: cst.IndentedBlock | cst.Module, made: cst.CSTNode, line: cst.CSTNode, call: cst.Call
) -> bool:
    """Whether what the call reads may not be set yet where the model is wrapped."""
    read = {x.value for a in call.args for x in walk(a.value) if isinstance(x, cst.Name)}
    body = list(block.body)
    between = body[body.index(made) : body.index(line)]  # type: ignore[arg-type]
    return any(
        isinstance(target, cst.Name) and target.value in read
        for statement in between
        for one in walk(statement)
        if isinstance(one, cst.AssignTarget)
        for target in walk(one)
    )


def _moves_after(script: Script, wrap: Wrap) -> Iterator[cst.Call]:
    sites = [e.site.node for e in script.events(wrap.wrapper, "move")]
    for model in wrap.held:
        after = False
        for event in script.events(model, "wrap", "move"):
            after = after or event.site.node is wrap.site.node
            if after and event.kind == "move":
                sites.append(event.site.node)
    for node in sites:
        if isinstance(node, cst.Call) and not _stands_before(script, node, wrap.call):
            yield node


def _stands_before(script: Script, move: cst.Call, wrap: cst.Call) -> bool:
    """Whether a move may be before the wrap: it is above it, and no loop leads back to it.

    What an attribute holds is known for all of the run, not for each moment: two methods may be
    called in either order.
    """
    structure = script.structure_of(move)
    if structure is not script.structure_of(wrap) or structure.loops(move):
        return False
    if move in structure.up(wrap):
        return False  # ``DDP(net).to(device)``
    if structure.function(move) is structure.function(wrap):
        return structure.order[move] < structure.order[wrap]
    receiver = move.func.value if isinstance(move.func, cst.Attribute) else move
    return isinstance(receiver, cst.Attribute) and not _calls_after(script, move, wrap)


def _calls_after(script: Script, move: cst.Call, wrap: cst.Call) -> bool:
    """Whether some code calls, after what wraps, what moves."""
    made, moved = (script.structure_of(one).function(one) for one in (wrap, move))
    wraps = script.control.callers(made) if made is not None else []
    moves = [one.node for one in script.control.callers(moved)] if moved is not None else []
    return any(
        (structure := script.structure_of(first.node)) is script.structure_of(second)
        and structure.order[first.node] < structure.order[second]
        for first in wraps
        for second in (*moves, *([move] if _is_in(script, first.node, moved) else ()))
    )


def _is_in(script: Script, node: cst.CSTNode, function: cst.FunctionDef | None) -> bool:
    return function is not None and script.structure_of(node).function(node) is function


def _matters(script: Script, wrap: Wrap, call: cst.Call) -> bool:
    """A cast always; a move only where the model had not been moved before."""
    assert isinstance(call.func, cst.Attribute)
    wrapped = {model for one in script.wraps for model in (one.wrapper, *one.held)}
    if any(one not in wrapped for one in script.instances(call.func.value)):
        return False  # it may be another model
    name = call.func.attr.value
    if name in _CASTS or (name == "to" and _to_half(script, call)):
        return _before_training(script, call)
    if name not in _MOVES or _moved_before(script, wrap) or _to_where_it_is(script, call):
        return False
    return _before_training(script, call)


def _to_where_it_is(script: Script, call: cst.Call) -> bool:
    """``.to("cpu")`` of a model that was never moved."""
    given = script.value(call.args[0].value).atoms if call.args else ()
    return bool(given) and all(
        (isinstance(a, Device) and not a.accelerator) or (isinstance(a, Const) and a.value == "cpu")
        for a in given
    )


def _to_half(script: Script, call: cst.Call) -> bool:
    names = {name for a in call.args for name in script.names(a.value)}
    return bool(
        names & {"torch.half", "torch.float16", "torch.bfloat16", "torch.double", "torch.float64"}
    )


def _before_training(script: Script, call: cst.Call) -> bool:
    """Not an export at the end: something trains after it, or it stands in a function."""
    structure = script.structure_of(call)
    if structure.function(call) is not None or structure.loops(call):
        return True
    at = structure.order[call]
    return (
        any(
            structure.order.get(node, 0) > at and script.trains(node)
            for node in structure.all(cst.For, cst.While, cst.Expr)
        )
        or not script.facts.backwards
    )


def _moved_before(script: Script, wrap: Wrap) -> bool:
    for model in wrap.held:
        for event in script.events(model, "wrap", "move"):
            if event.kind == "move":
                return True
            if event.site.node is wrap.site.node:
                break
    return not wrap.held
