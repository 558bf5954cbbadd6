"""Numbers of GPUs that are the same on all ranks: written, also by a name or out of a list."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import ANY_RANK


def is_one_number(script: Script, node: cst.BaseExpression) -> bool:
    """``0``, a name that is set to it alone, and ``gpus[0]`` where the list is written in the
    source, or is an option, also in a function that is given it.
    """
    if isinstance(node, cst.Integer) or is_set_to_a_number(script, node):
        return True
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return False
    part = node.slice[0].slice
    if not isinstance(part, cst.Index):
        return False
    if not (isinstance(part.value, cst.Integer) or is_set_to_a_number(script, part.value)):
        return False
    module = script.owners.get(node, script.module)
    if script.flow.sources(node, module) & ANY_RANK:
        return False
    return _is_one_list(script, node.value, 4)


def is_set_to_a_number(script: Script, node: cst.BaseExpression) -> bool:
    """``local_rank = 0``, and nothing else that it may be."""
    if not isinstance(node, cst.Name):
        return False
    edges = script.flow.edges_into(script.control.locations(node))
    return len(edges) == 1 and all(
        isinstance(one.node, cst.Assign)
        and isinstance(one.value, cst.Integer)
        and not (one.passes or one.offers)
        for one in edges
    )


def is_numbered_text(script: Script, node: cst.BaseExpression) -> bool:
    """``f"cuda:{gpus[0]}"``."""
    if not isinstance(node, cst.FormattedString) or len(node.parts) != 2:
        return False
    kind, number = node.parts
    return (
        isinstance(kind, cst.FormattedStringText)
        and kind.value in ("cuda:", "xpu:", "npu:", "hpu:")
        and isinstance(number, cst.FormattedStringExpression)
        and is_one_number(script, number.expression)
    )


def _is_one_list(script: Script, node: cst.BaseExpression, depth: int) -> bool:
    """Whether all that an expression may be are lists that are the same for all ranks."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(isinstance(one.value, (cst.Integer, cst.SimpleString)) for one in node.elements)
    if _is_option(script, node) or _is_read_from_option(script, node):
        return True
    if not isinstance(node, (cst.Name, cst.Attribute)) or not depth:
        return False
    kept = [edge.value for edge in script.flow.edges_into(script.control.locations(node))]
    return bool(kept) and all(
        one is not None and _is_one_list(script, one, depth - 1) for one in kept
    )


def _is_read_from_option(script: Script, node: cst.BaseExpression) -> bool:
    """``args.gpus.split(",")``, and ``[int(gpu) for gpu in args.gpus.split(",")]``."""
    if isinstance(node, cst.ListComp) and node.for_in.inner_for_in is None:
        taken = set(target_names(node.for_in.target))
        named = (one for one in walk(node.elt) if isinstance(one, cst.Name))
        plain = all(x.value in taken or "builtins.int" in script.names(x) for x in named)
        return plain and not node.for_in.ifs and _is_read_from_option(script, node.for_in.iter)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value == "split" and _is_option(script, node.func.value)


def _is_option(script: Script, node: cst.BaseExpression) -> bool:
    """``args.gpus``: a launcher gives all ranks the same options."""
    return isinstance(node, cst.Attribute) and any(
        one.type == "argparse.Namespace" for one in script.instances(node.value)
    )
