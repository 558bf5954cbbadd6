"""Settings that a layer or a loss of PyTorch's gets after it is made: ``loss.reduction = "sum"``.

Whether it has them in each call is not followed: they may be what it was made with as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.understanding.values import REPLICATED, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_NAMES = frozenset("reduction size_average reduce ignore_index dim start_dim batch_first".split())
_TENSORS = frozenset({"weight", "pos_weight"})


def note(run: RunState, owner: Instance, name: str, new: Value) -> None:
    """One of them is set."""
    if _is_layer(owner) and name in _NAMES:
        run.give(owner, name, REPLICATED)
    elif _is_layer(owner) and name in _TENSORS and owner.kind.endswith("Loss"):
        run.give(owner, name, new)


def note_any(run: RunState, owner: Instance) -> None:
    """Any of them may be set, by a name that is not known."""
    for name in sorted(_NAMES) if _is_layer(owner) and owner.kind.endswith("Loss") else ():
        run.give(owner, name, REPLICATED)


def _is_layer(owner: Instance) -> bool:
    return isinstance(owner.type, str) and owner.type.startswith("torch.nn.")
