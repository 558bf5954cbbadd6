"""Functions of packages that make an optimizer of a model's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.libraries.instances import library_object, new_optimizer
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.values import Instance, Params, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

NAMES = tuple(
    f"timm.optim.{path}{name}"
    for path in ("", "optim_factory.", "_optim_factory.")
    for name in ("create_optimizer", "create_optimizer_v2")
)


def made(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``create_optimizer(options, model)``: it steps the model's parameters, or those given."""
    optimizer = library_object(run, node, "an optimizer", args, kwargs)
    given = [*args, *kwargs.values()]
    models = [one for held in given for one in held.of(Instance) if is_model(one)]
    for atom in optimizer.of(Instance):
        new_optimizer(run, node, atom, [*given, value(*map(Params, models))])
    return optimizer
