"""What comes out of files, and one of several results of a function that cannot be read.

It is a plain value, or a whole model where its parameters are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.instances import RETURNS_MODEL
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    Instance,
    Number,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def out_of_file(run: RunState, node: cst.BaseExpression) -> Value:
    """What an expression takes out of a file: ``torch.load(path)``, ``checkpoint["net"]``."""
    if node not in run.loaded_models:
        return value(Number(loaded=node))
    made = run.instance(node, run.module, "torch.load")
    made.role = "model"
    return value(made)


def one_result(run: RunState, node: cst.BaseExpression, whole: Value, part: Value) -> Value:
    """What an expression takes of ``whole``, as ``model`` in ``model, _ = library.make()`` does."""
    made = [a for a in whole.of(Instance) if a.kind and a.role is None and a.kind not in CONTAINERS]
    return out_of_file(run, node) if made and part == REPLICATED else part


def method(run: RunState, one: object, name: str, args: list[Value], result: Value) -> Value:
    """The result of a method of what may be out of a file: moved, it still is."""
    if not isinstance(one, Number) or one.loaded is None:
        return result
    if name in ("parameters", "named_parameters") and not args:
        run.reads_change |= one.loaded not in run.loaded_models
        run.loaded_models.add(one.loaded)
    plain = all(isinstance(atom, Number) for atom in result.atoms)
    return value(one) if plain and name in RETURNS_MODEL else result
