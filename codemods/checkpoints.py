"""Load models and their states to each rank's own device, wherever they were saved from."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.labels.checkpoints import Checkpoints

_POSITION = 1  # of map_location among the arguments of torch.load


def edit(plan: Plan, edits: Edits) -> None:
    """Load with the runtime's ``load``, unless the script says where to."""
    loads = [site for name, site in plan.facts.calls_to("torch.load") if name == "torch.load"]
    if not loads:
        return
    checkpoints = Checkpoints(plan.facts, plan.flow)
    for site in loads:
        load, module = site.node, site.module
        if not isinstance(load, cst.Call) or not module.editable or _is_mapped(load):
            continue
        if checkpoints.is_state(load, module) or checkpoints.is_model(load, module):
            edits.put(load.func, f"{plan.options.alias}.load")
            edits.note(site, "loaded to the device of this rank", rule="load-without-map-location")


def _is_mapped(load: cst.Call) -> bool:
    """Whether a load says where its tensors go, or may do so out of sight."""
    positional = [one for one in load.args if one.keyword is None]
    named = [one.keyword.value for one in load.args if one.keyword is not None]
    hidden = any(one.star for one in load.args)
    return hidden or len(positional) > _POSITION or "map_location" in named
