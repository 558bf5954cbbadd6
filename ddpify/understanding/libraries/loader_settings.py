"""Settings that a loader gets after it is made, as ``loader.collate_fn = function``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.values import Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def note(run: RunState, owner: Instance, name: str, new: Value) -> None:
    """The only one that a loader takes up then: PyTorch refuses others, or does not read them."""
    if name == "collate_fn" and is_loader(owner):
        run.give(owner, name, new)
