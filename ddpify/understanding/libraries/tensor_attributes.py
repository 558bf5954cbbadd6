"""Attributes that a program sets on tensors, as ``y.mean_row = y.mean(0)`` does.

What a tensor has under such a name is told by the name alone, whichever tensor it is. Rows of a
batch that have rows of it, too, stay a rank's own; all else is asked to be what all ranks hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.understanding import definition_sites, uses
from ddpify.understanding.arguments import local_data
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    Atom,
    Data,
    Number,
    Params,
    ReplicatedTensor,
    Value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What a tensor or an array has by itself.
_OWN = frozenset("data flags grad imag names real requires_grad shape strides dtype".split())
_Tensor = Data | Number | Params | ReplicatedTensor


def put(run: RunState, owner: Value, name: str, shown: cst.BaseExpression, new: Value) -> None:
    """``owner.name = new``, where the owner is a tensor."""
    owners = [one for one in owner.atoms if is_tensor(one)]
    if not owners or name in _OWN or run.collating:
        return
    local = list(local_data(new))
    if local and all(_goes_with(data, owners) for data in local):
        return  # as the fields of a batch are
    run.demand_held(shown, new, uses.A_KEPT_COLLECTION)
    run.put(run.of_tensors(), name, definition_sites.reduced(new))


def read(run: RunState, owner: Atom, name: str) -> Value | None:
    """What has been set under a name; None where nothing has, or the owner is no tensor."""
    return run.of_tensors().attribute(name) if is_tensor(owner) else None


def is_tensor(atom: Atom) -> TypeGuard[_Tensor]:
    """Whether this may be a tensor or an array."""
    return isinstance(atom, _Tensor)


def _goes_with(data: Data, owners: list[_Tensor]) -> bool:
    """Whether these are rows of a batch that each owner has rows of."""
    batches = [isinstance(one, Data) and one.placement is Placement.SHARD for one in owners]
    return data.placement is Placement.SHARD and all(batches)
