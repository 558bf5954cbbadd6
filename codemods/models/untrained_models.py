"""Models that no optimizer steps, but whose batch normalisation goes by the batch.

A target network or a teacher in training mode normalises with the statistics of what it gets: of
the global batch in one process, of a rank's part on several.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.planning.plan import Plan
from ddpify.understanding.libraries.object_kinds import is_criterion, is_loss
from ddpify.understanding.model_structure import may_have_batchnorm
from ddpify.understanding.values import Instance


def normalising(plan: Plan) -> Iterator[Instance]:
    """The models among those that get rows of the batch which normalise over it, as far as seen."""
    for model in plan.facts.forwards.row_calls:
        switches = plan.facts.switches.get(model, {}).values()
        left_evaluating = {mode for one in switches for mode in one.modes} == {False}
        computes = is_criterion(model) or is_loss(model)
        if not computes and not left_evaluating and may_have_batchnorm(model):
            yield model
