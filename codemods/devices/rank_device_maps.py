"""Put a model that a library places by ``device_map`` on the device of the rank."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.mapped_models import device_maps
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import code_of


def edit(plan: Plan, edits: Edits) -> None:
    """``device_map="auto"`` takes all GPUs that a process sees; a rank has one."""
    for site, given in device_maps(plan):
        wanted = f'{{"": {plan.options.alias}.device()}}'
        if code_of(given.value) != wanted:
            edits.put(given.value, wanted)
            edits.note(site, "the whole model on the device of this rank", rule="hard-coded-device")
