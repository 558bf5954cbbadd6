"""What is handed to code that ddpify cannot read: loaders, and batches that it may give back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.values import Data, Instance, Value, deep_atoms, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def note_loaders(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> None:
    """Remember the arguments of a call that are loaders, or hold some; Python's own get none."""
    if name.startswith("builtins."):
        return
    for expression, one in argument_pairs(node, args, kwargs):
        if any(isinstance(a, Instance) and is_loader(a) for a in deep_atoms(one)):
            run.facts.loading.escaping_loaders.setdefault(expression, run.site(node))


def rows_of_all(run: RunState, node: cst.BaseExpression, given: Value) -> Value | None:
    """What comes back for the rows of all ranks: perhaps those, as a model that gets it shows."""
    held = [a for a in given.atoms if isinstance(a, Data) and a.form is Layout.GATHERED]
    if not held:
        return None
    loaders = frozenset(loader for data in held for loader in data.loaders)
    run.facts.loading.unseen_calls.add(node)
    return value(replace(held[0], names=frozenset({node}), loaders=loaders))


def enter_a_model(run: RunState, given: list[Value]) -> None:
    """Remember which of the calls that gave a model, or a layer, its input got all ranks' rows."""
    for data in (a for one in given for a in one.atoms if isinstance(a, Data)):
        for node in data.names if data.form is Layout.GATHERED else ():
            if isinstance(node, cst.Call) and node in run.facts.loading.unseen_calls:
                run.facts.loading.given_back[node] = data.loaders
