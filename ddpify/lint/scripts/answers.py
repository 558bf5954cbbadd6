"""Whether ranks that leave out a part of a step make up for it where the others wait for them."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import walk


def is_answered(script: Script, call: cst.Call, node: cst.CSTNode) -> bool:
    """Whether the others' next training forward takes what this one sends.

    Without gradients, DistributedDataParallel sends the buffers once, and rank 0 leaves out the
    sending of its own next forward. What comes after the last step is answered by nobody.
    """
    sharded = any(one.type != DDP for one in script.instances(call.func))
    if sharded or not script.control.without_grad(call):
        return False
    todo, seen = [node], {node}
    while todo:
        site = todo.pop()
        structure = script.structure_of(site)
        if any(_trains_after(script, loop, site) for loop in structure.loops(site)):
            return True
        function = structure.function(site)
        callers = script.control.callers(function) if function is not None else []
        todo += [one.node for one in callers if one.node not in seen]
        seen.update(one.node for one in callers)
    return False


def _trains_after(script: Script, loop: cst.For | cst.While, site: cst.CSTNode) -> bool:
    """Whether a round of a loop goes on with a step, or a step of the same epoch follows."""
    if isinstance(loop, cst.For) and script.loaders_in(loop.iter) and script.trains(loop):
        return True
    order = script.structure_of(site).order
    return any(
        order[site] < order.get(one, 0) and script.trains(one)
        for one in walk(loop.body)
        if isinstance(one, (cst.SimpleStatementLine, cst.For, cst.While, cst.With))
    )


def goes_back_in_other_branch(script: Script, node: cst.CSTNode) -> bool:
    """Whether the other ranks go backward too, elsewhere under the same condition."""
    for guard in script.control.rank_guards(node):
        if not isinstance(guard.statement, cst.If):
            return True
        other = guard.statement.orelse if guard.positive else guard.statement.body
        if other is not None and any(one in script.facts.backwards for one in walk(other)):
            return True
    return False
