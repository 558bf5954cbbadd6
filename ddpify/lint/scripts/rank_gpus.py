"""The rank's own GPU in the place of a literal one, in scripts that torchrun starts."""

from __future__ import annotations

import re
from typing import TypeGuard

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix
from ddpify.lint.scripts.device_numbers import local_rank_at
from ddpify.lint.scripts.repairs import import_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk

_TEXT = re.compile(r"(\w+):\d+")


def gpu_of_the_rank(script: Script, node: cst.Call | cst.Arg) -> Fix | None:
    """Take the GPU's number from LOCAL_RANK; None where the script starts its ranks itself.

    Args:
        script: The script that names a GPU.
        node: The call, or the argument, with the one literal that names it.
    """
    given = node.args if isinstance(node, cst.Call) else [node]
    literals = [one for arg in given for one in walk(arg.value) if _names_gpu(one)]
    if script.control.spawned or len(literals) != 1:
        return None
    literal = literals[0]
    name, edits = import_of(script, "os")
    start, end = script.positions.offsets(literal)
    if isinstance(literal, cst.SimpleString):
        text: str | None = _text(literal, name)
    else:
        text = local_rank_at(script, literal, name)
    if text is None:
        return None
    return Fix("use the local rank's GPU", (*edits, Edit(start, end, text)), Applicability.UNSAFE)


def _names_gpu(node: cst.CSTNode) -> TypeGuard[cst.SimpleString | cst.Integer]:
    """``0``, ``"cuda:0"``."""
    if isinstance(node, cst.SimpleString):
        return _TEXT.fullmatch(str(node.evaluated_value)) is not None
    return isinstance(node, cst.Integer)


def _text(literal: cst.SimpleString, name: str) -> str:
    kind = str(literal.evaluated_value).partition(":")[0]
    outer, inner = ('"', "'") if literal.quote.startswith('"') else ("'", '"')
    return f"f{outer}{kind}:{{int({name}.environ[{inner}LOCAL_RANK{inner}])}}{outer}"
