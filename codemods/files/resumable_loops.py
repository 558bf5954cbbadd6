"""Let a restarted script go on from a snapshot: its training loops, and what they hold."""

from __future__ import annotations

from ddpify.codemods.models.trained_models import trained_models

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.resumed_loops import ResumedLoop
from ddpify.planning.resumption import plan_resumption
from ddpify.understanding.facts import Site


def edit(plan: Plan, edits: Edits) -> None:
    """Where asked for, make the training's loops resumable, and take snapshots in them."""
    if not plan.options.resume:
        return
    found = plan_resumption(plan, trained_models(plan))
    for one in found.loops.values():
        _resume(plan, edits, one)
    for gap in found.gaps:
        edits.note(gap.site, f"not in the snapshots: {gap.text}", attention=True)


def _resume(plan: Plan, edits: Edits, loop: ResumedLoop) -> None:
    alias = plan.options.alias
    edits.wrap(loop.node.iter, f"{alias}.resumable", "".join(f", {o}" for o in loop.objects))
    site = Site(loop.node, loop.module)
    if loop.values or loop.takes_batches:
        values = ", ".join(loop.values)
        target = f"{values} = " if values else ""
        edits.insert_before(loop.node.body.body[0], f"{target}{alias}.snapshot({values})\n")
    edits.note(site, "taken up again after a restart" + _held(loop))


def _held(loop: ResumedLoop) -> str:
    names = [*loop.objects, *loop.values]
    return f", with {', '.join(names)}" if names else ""
