"""Settings that an object of PyTorch's gets after it is made, whichever way they are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries import layer_settings, loader_settings
from ddpify.understanding.values import Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def note(run: RunState, node: cst.CSTNode, owner: Instance, name: str, new: Value) -> None:
    """One of them is set."""
    loader_settings.note(run, node, owner, name, new)
    layer_settings.note(run, owner, name, new)


def note_any(run: RunState, node: cst.CSTNode, owner: Instance) -> None:
    """Any of them may be set, by a name that is not known."""
    loader_settings.note_any(run, node, owner)
    layer_settings.note_any(run, owner)
