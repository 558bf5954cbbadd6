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
    ANY_NAME,
    CONTAINERS,
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Number,
    Params,
    ReplicatedTensor,
    Value,
    join,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What a tensor or an array has by itself.
_OWN = frozenset("data flags grad imag names real requires_grad shape strides dtype".split())
_ALIKE = frozenset(
    "T H mT mH device dtype ndim layout grad_fn is_cuda is_cpu is_leaf is_sparse itemsize nbytes"
    " values indices size sum mean numpy".split()
)
_FILLING = frozenset("update setdefault __setitem__ __ior__".split())
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


def put_any(run: RunState, owner: Value, shown: cst.BaseExpression, new: Value) -> None:
    """The same under a name that is not known."""
    if any(True for _ in local_data(new)):
        put(run, owner, ANY_NAME, shown, new)


def read(run: RunState, owner: Atom, name: str, *, called: bool = False) -> Value | None:
    """What has been set under a name; None where nothing has, or the owner is no tensor.

    That may be what was set under a name that is not known, but for what each tensor has.
    """
    if not is_tensor(owner):
        return None
    held = run.of_tensors()
    known = called or name in _OWN | _ALIKE or name.startswith("__")
    return held.attribute(name) or (None if known else held.of_prefix(name))


def fill(run: RunState, node: cst.BaseExpression) -> bool:
    """``vars(y).update(mean=m)`` and ``y.__dict__.setdefault("mean", m)`` set attributes.

    Returns whether that is all that a call does.
    """
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    shown = with_variables(run, node.func.value)
    owner = run.seen(shown) if shown is not None else UNKNOWN
    if node.func.attr.value not in _FILLING or not any(map(is_tensor, owner.atoms)):
        return False
    for given in node.args:
        name = given.keyword.value if given.keyword is not None else ANY_NAME
        held = run.seen(given.value)
        inside = join(*(one.elements for one in held.of(Instance) if one.kind in CONTAINERS))
        if any(True for _ in local_data(join(held, inside))):
            put(run, owner, name, given.value, join(held, inside))
    return node.func.attr.value != "setdefault" and all(map(is_tensor, owner.atoms))


def with_variables(run: RunState, shown: cst.BaseExpression) -> cst.BaseExpression | None:
    """What an expression gives the variables of; None for others."""
    if isinstance(shown, cst.Attribute):
        return shown.value if shown.attr.value == "__dict__" else None
    if isinstance(shown, cst.Call) and run.calls_builtin(shown, "vars"):
        return shown.args[0].value if len(shown.args) == 1 else None
    return None


def is_tensor(atom: Atom) -> TypeGuard[_Tensor]:
    """Whether this may be a tensor or an array."""
    return isinstance(atom, _Tensor)


def _goes_with(data: Data, owners: list[_Tensor]) -> bool:
    """Whether these are rows of a batch that each owner has rows of."""
    batches = [isinstance(one, Data) and one.placement is Placement.SHARD for one in owners]
    return data.placement is Placement.SHARD and all(batches)
