"""Models that no optimizer steps, but whose batch normalisation goes by the batch.

A target network or a teacher in training mode normalises with the statistics of what it gets: of
the global batch in one process, of a rank's part on several.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.codemods.models.trained_models import whole_models

from ddpify.planning.plan import Plan
from ddpify.understanding.libraries.object_kinds import is_criterion, is_loss
from ddpify.understanding.model_structure import batchnorm_in, may_have_batchnorm
from ddpify.understanding.values import Instance


def normalising(plan: Plan) -> Iterator[Instance]:
    """The models among those that get rows of the batch which normalise over it, as far as seen."""
    for model in plan.facts.forwards.row_calls:
        if _may_follow_the_batch(plan, model) and may_have_batchnorm(model):
            yield model
    for layer in filter(batchnorm_in, plan.facts.forwards.inner_calls):
        whole = whole_models(plan, [layer])
        if all(_may_follow_the_batch(plan, one) for one in (layer, *whole)):
            yield from whole


def _may_follow_the_batch(plan: Plan, model: Instance) -> bool:
    """Whether a model may be in training mode, and is no loss."""
    switches = plan.facts.switches.get(model, {}).values()
    left_evaluating = {mode for one in switches for mode in one.modes} == {False}
    return not (left_evaluating or is_criterion(model) or is_loss(model))
