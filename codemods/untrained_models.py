"""Models that no optimizer steps, but whose batch normalisation goes by the batch.

A target network or a teacher in training mode normalises with the statistics of what it gets: of
the global batch in one process, of a rank's part on several.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.planning.plan import Plan
from ddpify.understanding.libraries.kinds import is_criterion, is_loss, is_model
from ddpify.understanding.values import Class, Instance, deep_atoms

# torchvision's networks without batch normalisation.
_WITHOUT = ("alexnet", "vgg", "squeezenet", "vit_", "swin_", "convnext_")


def normalising(plan: Plan) -> Iterator[Instance]:
    """The models among those that get rows of the batch which normalise over it, as far as seen."""
    for model in plan.facts.row_calls:
        switches = plan.facts.switches.get(model, {}).values()
        left_evaluating = {mode for one in switches for mode in one.modes} == {False}
        computes = is_criterion(model) or is_loss(model)
        if not computes and not left_evaluating and _normalises(model, set()):
            yield model


def _normalises(model: Instance, seen: set[Instance]) -> bool:
    """Whether a model has a layer of batch normalisation, or may: a library's own network."""
    if model in seen:
        return False
    seen.add(model)
    if isinstance(model.type, str) and model.type.startswith("torch.nn."):
        if "BatchNorm" in model.type:
            return True
    elif isinstance(model.type, str):
        name = model.type.rpartition(".")[2]
        return name.endswith("_bn") or not name.startswith(_WITHOUT)
    own = isinstance(model.type, Class)  # whose arguments are what it makes of them
    held = [*model.attributes.values(), *(() if own else model.arguments.values())]
    parts = (a for one in held for a in deep_atoms(one) if isinstance(a, Instance))
    return any(_normalises(a, seen) for a in parts if is_model(a))
