"""Loaders that are handed to code that is not seen, which goes through their batches itself."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.language.arguments import Keywords, argument_pairs
from ddpify.understanding.libraries.kinds import is_loader
from ddpify.understanding.values import Instance, Value, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def note_loaders(
    run: Interpreter, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> None:
    """Remember the arguments of a call that are loaders, or hold some; Python's own get none."""
    if hasattr(builtins, name.removeprefix("builtins.")):
        return
    for expression, one in argument_pairs(node, args, kwargs):
        if any(isinstance(a, Instance) and is_loader(a) for a in deep_atoms(one)):
            run.facts.handed.setdefault(expression, run.site(node))
