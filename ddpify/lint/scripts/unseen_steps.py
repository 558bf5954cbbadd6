"""Steps of training that another package makes: its function gets the loss and the optimizer.

``loss_scaler(loss, optimizer, parameters=model.parameters())`` of timm runs ``backward()``, clips
and steps. Whatever gets both has nothing else to do with them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.understood import Understood
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.functions import FUNCTIONS
from ddpify.understanding.placement import Placement
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.values import Data, Instance, Params, Value

KNOWN = frozenset({"torch", "numpy", "builtins", *sys.stdlib_module_names})
_LOSSES = frozenset({Placement.MEAN, Placement.SUM, Placement.WEIGHTED, Placement.COUPLED})


def note_unseen_steps(script: Understood) -> None:
    """Count these calls among those that run ``backward()``, and their loaders as trained on."""
    for node, (site, loss) in _unseen_steps(script):
        script.facts.backwards.setdefault(node, (site, loss))
        script.facts.gradients.reached_backwards.add(node)
        sites = {loader.site for data in loss.of(Data) for loader in data.loaders}
        script.facts.trained |= sites
        script.choices.trained |= sites


def _unseen_steps(script: Understood) -> Iterator[tuple[cst.Call, tuple[Site, Value]]]:
    for file, structure in script.structures.items():
        for call in structure.all(cst.Call):
            given = [script.value(one.value) for one in call.args]
            loss = next(filter(_is_loss, given), None)
            if loss is None or not any(map(_is_stepped, given)) or not _is_unseen(script, call):
                continue
            yield call, (Site(call, file), loss)


def _is_loss(given: Value) -> bool:
    return any(one.placement in _LOSSES for one in given.of(Data))


def _is_stepped(given: Value) -> bool:
    """An optimizer, or the parameters of a model."""
    return any(
        isinstance(one, Params) or (isinstance(one, Instance) and one.role == "optimizer")
        for one in given.atoms
    )


def _is_unseen(script: Understood, call: cst.Call) -> bool:
    """Whether a function or an object of another package is called."""
    if any(True for _ in called(script.facts, call)):
        return False
    made = [one.type for one in script.instances(call.func)]
    names = [*script.names(call.func), *(one for one in made if isinstance(one, str))]
    return bool(names) and not any(
        name in FUNCTIONS or name.partition(".")[0] in KNOWN for name in names
    )
