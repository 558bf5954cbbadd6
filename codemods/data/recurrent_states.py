"""Give recurrent layers this rank's rows of what a model has for the whole batch."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import brief


def edit(plan: Plan, edits: Edits) -> None:
    """Split states and lengths where a layer gets them, as many as its input has rows."""
    for node, states in plan.facts.rows.states.items():
        extra = f", dim={states.dim}" if states.dim else ""
        extra += f", rows={states.rows}" if states.rows else ""
        edits.wrap(node, f"{plan.options.alias}.split", extra)
        edits.note(states.site, f"{brief(node)}: this rank's rows of the global batch's states")
    for node, lengths in plan.facts.rows.lengths.items():
        edits.wrap(node, f"{plan.options.alias}.split", f", rows={lengths.rows}")
        edits.note(lengths.site, f"{brief(node)}: those of this rank's sequences")
