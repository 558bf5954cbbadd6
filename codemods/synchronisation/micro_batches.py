"""Exchange gradients in the last micro-batch of a step alone."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.micro_batches import window
from ddpify.planning.plan import Plan


def edit(plan: Plan, edits: Edits) -> None:
    """Say before each micro-batch whether it is the last; snapshots hold gradients of all ranks."""
    found = None if plan.options.resume else window(plan)
    if found is None:
        return
    edits.insert_before(found.site.node, f"{plan.options.alias}.sync_gradients({found.last})\n")
    text = "gradients are exchanged in the last micro-batch of each step"
    edits.note(found.site, text, rule="accumulation-without-no-sync")
