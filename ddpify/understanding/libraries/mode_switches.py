"""``train()`` and ``eval()``, and what ``self.training`` is in a forward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import training_modes
from ddpify.understanding.values import Const, Instance, Number, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def is_other_method(name: str, given: list[Value]) -> bool:
    """Whether ``train(...)`` or ``eval(...)`` gets what no module's own takes, as a loader."""
    if name == "eval":
        return bool(given)
    held = (atom for one in given for atom in one.atoms)
    return name == "train" and not all(isinstance(atom, (Const, Number)) for atom in held)


def switched(
    run: RunState, node: cst.BaseExpression, model: Instance, name: str, given: Iterable[Value]
) -> None:
    """Note ``model.train(...)`` or ``model.eval()``."""
    mode = next((one.constant() for one in given), name == "train")
    owner = node.func if isinstance(node, cst.Call) else None
    surely = isinstance(owner, cst.Attribute) and len(run.seen(owner.value).atoms) == 1
    training_modes.switch(run.facts, run.site(node), model, mode, surely=surely)


def of_call(run: RunState, node: cst.BaseExpression, model: Instance) -> bool | None:
    """Whether a model that is called, or a method of it, is in training mode there.

    As far as any code asks for it.
    """
    if run.frames_forward():
        return run.training
    if not any(file.reads_modes for file in run.project.files):
        return None
    return _here(run, node, model)


def of_layer(run: RunState, node: cst.BaseExpression, layer: Instance) -> bool | None:
    """Whether a layer of the model in progress is in training mode: with it, or by itself."""
    if not run.frames_forward():
        return _here(run, node, layer)
    own = layer in run.facts.switches and layer is not run.frame.receiver
    return None if own else run.training


def _here(run: RunState, node: cst.BaseExpression, model: Instance) -> bool | None:
    """The mode outside of forwards; a method of the model was entered in that of its call."""
    outer = run.frame.receiver
    inside = outer is not None and run.modes.layers.holds(outer, model)
    entered = run.training if inside else None
    return run.modes.at(run.facts, run.site(node), model, entered)
