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
    Atom,
    Instance,
    Number,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


# What is asked of models alone, without arguments.
_OF_MODELS = frozenset("parameters named_parameters eval train modules named_modules".split())


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
    if name in _OF_MODELS and not args:
        run.reads_change |= one.loaded not in run.loaded_models
        run.loaded_models.add(one.loaded)
    plain = all(isinstance(atom, Number) for atom in result.atoms)
    return value(one) if plain and name in RETURNS_MODEL else result


def without_models(run: RunState, held: Value) -> Value:
    """What a loop has left, without plain values that have turned out to be whole models since."""
    kept = [a for a in held.atoms if not _is_a_model(run, a)]
    return held if len(kept) == len(held.atoms) else value(*kept)


def _is_a_model(run: RunState, atom: Atom) -> bool:
    return isinstance(atom, Number) and atom.loaded in run.loaded_models
