"""Everything that a conversion does to a script, in order."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.codemods.data import (
    batch_sizes,
    batch_splits,
    loaders,
    padding,
    recurrent_states,
)
from ddpify.codemods.devices import devices, one_device, rank_device_maps
from ddpify.codemods.files import barriers, checkpoints, rank0_files, rank0_queries, resumable_loops
from ddpify.codemods.launch import given_arguments, launch_queries, process_group
from ddpify.codemods.models import learning_rates, models, spread_forwards, type_tests
from ddpify.codemods.random import order_notes, run_names, shared_draws
from ddpify.codemods.synchronisation import (
    clocks,
    command_results,
    error_handlers,
    gradient_hooks,
    gradients,
    lazy_losses,
    loss_scales,
    micro_batches,
    printed_losses,
    reductions,
)

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan

COLLECTED: tuple[Callable[[Plan, Edits], None], ...] = (
    launch_queries.edit,
    one_device.edit,
    devices.edit,
    rank_device_maps.edit,
    checkpoints.edit,
    loaders.edit,
    batch_splits.edit,
    models.edit,
    type_tests.edit,
    learning_rates.edit,
    reductions.edit,
    printed_losses.edit,
    batch_sizes.edit,
    shared_draws.edit,
    micro_batches.edit,
    gradients.edit,
    gradient_hooks.edit,
    loss_scales.edit,
    recurrent_states.edit,
    padding.edit,
    spread_forwards.edit,
    rank0_files.edit,
    command_results.edit,
    run_names.edit,
    clocks.edit,
    rank0_queries.edit,
    barriers.edit,
    order_notes.edit,
    resumable_loops.edit,
    lazy_losses.edit,
    error_handlers.edit,
    given_arguments.edit,
)
# The imports and the start of the process group go by what the others have changed.
CODEMODS = (*COLLECTED, process_group.edit)


def collect(plan: Plan) -> Edits:
    """What a conversion changes but for imports and the start, of which nothing is done yet.

    Raises:
        Refusal: The training is not converted.
    """
    edits = Edits()
    for codemod in COLLECTED:
        codemod(plan, edits)
    return edits
