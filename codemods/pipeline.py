"""Everything that a conversion does to a script, in order."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.codemods import (
    barriers,
    batch_sizes,
    batch_splits,
    checkpoints,
    clocks,
    command_results,
    devices,
    error_handlers,
    gradient_hooks,
    gradients,
    last_sizes,
    launch_queries,
    lazy_losses,
    learning_rates,
    loaders,
    micro_batches,
    models,
    order_notes,
    padding,
    printed_losses,
    process_group,
    rank0_files,
    rank0_queries,
    rank_device_maps,
    recurrent_states,
    reductions,
    resumable_loops,
    run_names,
    shared_draws,
    spread_forwards,
    type_tests,
)

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan

COLLECTED: tuple[Callable[[Plan, Edits], None], ...] = (
    launch_queries.edit,
    devices.edit,
    rank_device_maps.edit,
    checkpoints.edit,
    loaders.edit,
    batch_splits.edit,
    models.edit,
    type_tests.edit,
    learning_rates.edit,
    reductions.edit,
    last_sizes.edit,
    printed_losses.edit,
    batch_sizes.edit,
    shared_draws.edit,
    micro_batches.edit,
    gradients.edit,
    gradient_hooks.edit,
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
