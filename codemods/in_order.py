"""Everything that a conversion does to a script, in order."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.codemods import (
    accumulation,
    batch_sizes,
    batches,
    checkpoints,
    clocks,
    command_results,
    device_maps,
    devices,
    draws,
    error_handlers,
    files,
    gradient_hooks,
    gradients,
    last_sizes,
    launch_questions,
    lazy_losses,
    learning_rates,
    loaders,
    models,
    order,
    own_names,
    padding,
    printed,
    process_group,
    questions,
    reductions,
    resume,
    states,
    types,
    waiting,
    whole_calls,
)

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan

COLLECTED: tuple[Callable[[Plan, Edits], None], ...] = (
    launch_questions.edit,
    devices.edit,
    device_maps.edit,
    checkpoints.edit,
    loaders.edit,
    batches.edit,
    models.edit,
    types.edit,
    learning_rates.edit,
    reductions.edit,
    last_sizes.edit,
    printed.edit,
    batch_sizes.edit,
    draws.edit,
    accumulation.edit,
    gradients.edit,
    gradient_hooks.edit,
    states.edit,
    padding.edit,
    whole_calls.edit,
    files.edit,
    command_results.edit,
    own_names.edit,
    clocks.edit,
    questions.edit,
    waiting.edit,
    order.edit,
    resume.edit,
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
