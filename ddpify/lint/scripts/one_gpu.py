"""Names of GPUs that are the same on all ranks: written, or handed on to where they are used."""

from __future__ import annotations

import re

import libcst as cst

from ddpify.lint.scripts.one_number import is_numbered_text, is_one_number
from ddpify.lint.scripts.script import Script
from ddpify.understanding.taint.sources import ANY_RANK
from ddpify.understanding.values import Const

_ONE_GPU = re.compile(r"(cuda|xpu|npu|hpu):\d+$")


def is_one_gpu(script: Script, node: cst.BaseExpression) -> bool:
    """``"cuda:0"``, also by a name, an argument or an attribute that is nothing else; and what maps
    each device to it.
    """
    if isinstance(node, cst.Dict):
        given = [one.value for one in node.elements if isinstance(one, cst.DictElement)]
        return bool(given) and all(is_one_gpu(script, one) for one in given)
    if isinstance(node, cst.Lambda):
        return _moves_to_one(script, node.body)
    return is_numbered_text(script, node) or _is_set_to_one(script, node)


def _is_set_to_one(script: Script, node: cst.BaseExpression) -> bool:
    held = [one.value if isinstance(one, Const) else None for one in script.value(node).atoms]
    named = (isinstance(one, str) and _ONE_GPU.match(one) for one in held)
    if not held or not all(named):
        return False
    return not script.flow.sources(node, script.owners.get(node, script.module)) & ANY_RANK


def _moves_to_one(script: Script, node: cst.BaseExpression) -> bool:
    """``storage.cuda(0)``."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    moves = node.func.attr.value == "cuda" and len(node.args) == 1
    return moves and is_one_number(script, node.args[0].value)
