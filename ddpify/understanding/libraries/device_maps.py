"""``device_map``: where a library puts the layers of a model that it makes."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Const, Value

_ON_NO_GPU = (None, "cpu", "meta")
_ON_ALL = ("auto", "balanced", "balanced_low_0", "sequential")


def device_map(call: cst.Call) -> cst.Arg | None:
    """The argument of a call that says so."""
    return argument(call, "device_map")


def may_use_gpus(told: Value) -> bool:
    """Whether a map may put layers on a GPU."""
    away = [Const(place) for place in _ON_NO_GPU]
    return not told or any(one not in away for one in told.atoms)


def spreads(told: Value) -> bool:
    """Whether a map surely puts layers on all GPUs that a process finds."""
    return told.constant() in _ON_ALL
