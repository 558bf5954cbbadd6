"""Ways out of a training loop, or of one of its steps, and the conditions that decide them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.own_decisions import decides_apart
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import ALL_COLLECTIVES
from ddpify.lint.scripts.updates import updated
from ddpify.understanding.structure import Guard

_EXITS = ("sys.exit", "builtins.exit", "builtins.quit", "os._exit")


def exits(script: Script) -> Iterator[cst.CSTNode]:
    """Statements that leave a loop, or the process without failing for all."""
    yield from script.structure.all(cst.Break, cst.Continue, cst.Return)
    for node in [*script.structure.all(cst.Raise), *script.calls(*_EXITS)]:
        if script.control.in_try(node) or not _ends_the_job(node):
            yield node


def _ends_the_job(node: cst.CSTNode) -> bool:
    """Whether a rank fails: its launcher then stops the others. An exit without a code does not."""
    if not isinstance(node, cst.Call):
        return True
    given = [one.value for one in node.args]
    return bool(given) and not (isinstance(given[0], cst.Integer) and given[0].value == "0")


def deciding(script: Script, node: cst.CSTNode) -> Iterator[Guard]:
    """Conditions on local values between a way out and the training loop that it leaves."""
    if isinstance(node, cst.Return) and _leaves_out_a_step(script, node):
        own = (g for g in script.control.guards(node) if not g.left_early)
        yield from (g for g in own if decides_apart(script, g.test))
        return
    loops = [loop for loop in script.structure.loops(node) if script.trains(loop)]
    if isinstance(node, cst.Break):
        loops = [x for x in script.structure.loops(node)[:1] if x in loops or _goes_on(script, x)]
    if not loops or (isinstance(node, cst.Continue) and not leaves_out_steps(script, node)):
        return
    order = script.structure.order
    for guard in script.control.guards(node):
        inside = order[guard.statement] > order[loops[-1]] and not guard.left_early
        if inside and decides_apart(script, guard.test):
            yield guard


def decides(script: Script, node: cst.CSTNode) -> bool:
    """Whether an expression stands in a condition that decides a way out for each rank alone."""
    above = {node, *script.structure.up(node)}
    return any(guard.test in above for one in exits(script) for guard in deciding(script, one))


def goes_on_after(script: Script, node: cst.CSTNode) -> bool:
    """Whether a rank leaves out one step, and takes part in the next."""
    if isinstance(node, cst.Return):
        return _leaves_out_a_step(script, node)
    return isinstance(node, cst.Continue)


def _leaves_out_a_step(script: Script, node: cst.Return) -> bool:
    """Whether a function of one step, which a loop calls, ends before its ``backward()``."""
    structure = script.structure
    function = structure.function(node)
    if function is None or any(script.trains(loop) for loop in structure.loops(node)):
        return False
    order = structure.order
    after = [
        one
        for one in structure.inside(function.body, cst.Call)
        if order[one] > order[node] and (one in script.facts.backwards or script.trains(one))
    ]
    return any(not structure.loops(one) for one in after) and any(
        script.trains(loop) for loop in script.control.around(after[0])
    )


def leaves_out_steps(script: Script, node: cst.Continue) -> bool:
    """Whether what stands between a ``continue`` and the end of its loop needs all ranks."""
    return any(
        _is_meeting(script, one) or "optimizer" in updated(script, one)
        for one in _left_out(script, node)
    )


def only_updates_after(script: Script, node: cst.CSTNode) -> bool:
    """Whether a ``continue`` leaves out an optimizer's step alone, where no rank waits."""
    return isinstance(node, cst.Continue) and not any(
        _is_meeting(script, one) for one in _left_out(script, node)
    )


def _left_out(script: Script, node: cst.Continue) -> Iterator[cst.Call]:
    """The calls between a ``continue`` and the end of its loop."""
    order = script.structure.order
    for loop in script.structure.loops(node)[:1]:
        for call in script.structure.inside(loop.body, cst.Call):
            if order[call] > order[node]:
                yield from (one for one in script.reached(call) if isinstance(one, cst.Call))


def _is_meeting(script: Script, call: cst.Call) -> bool:
    known = script.is_wrapped(call.func) or script.names(call.func) & ALL_COLLECTIVES
    return call in script.facts.backwards or bool(known)


def _goes_on(script: Script, loop: cst.CSTNode) -> bool:
    return bool(script.collectives(loop))
