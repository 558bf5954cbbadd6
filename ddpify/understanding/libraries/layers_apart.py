"""Layers that normalise over the batch, but are part of no model that is wrapped.

No wrapper lets them take the statistics of all ranks: they get the samples of all instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries import parts_of_receiver
from ddpify.understanding.model_structure import batchnorm_in
from ddpify.understanding.values import UNKNOWN, Instance, Params, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def normalises(run: RunState, call: cst.Call, layer: Instance) -> bool:
    """Whether a call normalises over a rank's own samples, in a collate function or a forward."""
    if not run.frames_forward() or batchnorm_in(layer) is None:
        return False
    if run.training is False or any(_is_left_evaluating(run, one) for one in _around(run, layer)):
        return False
    if run.collating:
        return True
    inside = parts_of_receiver.is_one(run, call.func) and run.frame.receiver is _outermost(run)
    return run.module.editable and not inside and not _is_wrapped(run, layer)


def _around(run: RunState, layer: Instance) -> Iterator[Instance]:
    """The layer, and the models whose code is in progress."""
    yield layer
    yield from (one.receiver for one in run.frames if one.receiver is not None)


def _is_left_evaluating(run: RunState, model: Instance) -> bool:
    switches = run.facts.switches.get(model, {}).values()
    return {mode for one in switches for mode in one.modes} == {False}


def _outermost(run: RunState) -> Instance | None:
    """The model whose forward is in progress, and not that of one of its layers."""
    forwards = (one.receiver for one in run.frames if one.in_forward)
    return next((one for one in forwards if one is not None), None)


def _is_wrapped(run: RunState, layer: Instance) -> bool:
    """Whether a layer is part of what the loop calls, or of what an optimizer trains."""
    given = (one.arguments.get("params", UNKNOWN) for one in run.facts.optimizers)
    trained = [one.owner for held in given for one in deep_atoms(held) if isinstance(one, Params)]
    outermost = _outermost(run)
    models = trained if outermost is None else [outermost, *trained]
    return any(run.modes.layers.holds(model, layer) for model in models)
