"""Models that no optimizer steps, but whose batch normalisation goes by the batch.

A target network or a teacher in training mode normalises with the statistics of what it gets: of
the global batch in one process, of a rank's part on several.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.libraries.kinds import is_criterion, is_loss, is_model
from ddpify.understanding.syntax import argument, dotted
from ddpify.understanding.values import UNKNOWN, Class, Instance, deep_atoms

# torchvision's networks without batch normalisation.
_WITHOUT = ("alexnet", "vgg", "squeezenet", "vit_", "swin_", "convnext_")


def normalising(plan: Plan) -> Iterator[Instance]:
    """The models among those that get rows of the batch which normalise over it, as far as seen."""
    modes = _modes(plan)
    for model in plan.facts.row_calls:
        left_evaluating = modes.get(model) == {False}
        computes = is_criterion(model) or is_loss(model)
        if not computes and not left_evaluating and _normalises(model, set()):
            yield model


def _modes(plan: Plan) -> dict[Instance, set[bool]]:
    """Which modes the script sets of a model: training is True, evaluation False."""
    found: dict[Instance, set[bool]] = {}
    for site in plan.sites(cst.Call):
        call = site.node
        func = call.func if isinstance(call, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("train", "eval"):
            continue
        assert isinstance(call, cst.Call)
        given = argument(call, "mode", 0)
        training = func.attr.value == "train" and (given is None or dotted(given.value) != "False")
        for atom in plan.facts.values.get(func.value, UNKNOWN).of(Instance):
            found.setdefault(atom, set()).add(training)  # type: ignore[arg-type]
    return found


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
