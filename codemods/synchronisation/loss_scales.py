"""Let a scaled loss overflow float16 where it does in one process."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.loss_scales import are_read_unscaled, scalers
from ddpify.planning.plan import Plan


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap scalers; where gradients are read while they are scaled, say what may differ."""
    found = list(scalers(plan))
    unscaled = bool(found) and are_read_unscaled(plan)
    for site in found:
        if site.module.editable and unscaled:
            edits.wrap(site.node, f"{plan.options.alias}.wrap_scaler")
            edits.note(site, "its scaled gradients overflow where those of one process do")
            continue
        text = (
            "the scaled gradients of N ranks are up to N times those of one process: "
            "float16 may overflow, and skip the step, at other steps"
        )
        edits.note(site, text, attention=True)
