"""Let a scaled loss overflow float16 where it does in one process."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.loss_scales import are_read_unscaled, scalers
from ddpify.planning.plan import Plan


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap scalers; where gradients are read while they are scaled, say what may differ."""
    for site in scalers(plan):
        if site.module.editable and are_read_unscaled(plan):
            edits.wrap(site.node, f"{plan.options.alias}.wrap_scaler")
            edits.note(site, "its scaled gradients overflow where those of one process do")
            continue
        text = (
            "the scaled gradients of N ranks are up to N times those of one process: "
            "float16 may overflow, and skip the step, at other steps"
        )
        edits.note(site, text, attention=True)
