"""Load models and their states to each rank's own device, wherever they were saved from."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import argument, spreads
from ddpify.understanding.taint.saved_models import Checkpoints


def edit(plan: Plan, edits: Edits) -> None:
    """Load with the runtime's ``load``, unless the script says where to."""
    loads = [site for name, site in plan.facts.calls_to("torch.load") if name == "torch.load"]
    if not loads:
        return
    checkpoints = Checkpoints(plan.facts, plan.flow)
    for site in loads:
        load, module = site.node, site.module
        if not isinstance(load, cst.Call) or not module.editable or spreads(load):
            continue
        if argument(load, "map_location", 1) is not None:
            continue
        if checkpoints.is_state(load, module) or checkpoints.is_model(load, module):
            edits.put(load.func, f"{plan.options.alias}.load")
            edits.note(site, "loaded to the device of this rank", rule="load-without-map-location")
