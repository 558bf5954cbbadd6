"""Expressions that surely make a number, or a tensor in host memory."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.syntax import argument, spreads
from ddpify.understanding.values import Const, Device

_MAKERS = frozenset(
    f"torch.{name}"
    for name in (
        "tensor zeros ones full empty rand randn arange linspace eye FloatTensor LongTensor"
        " IntTensor DoubleTensor Tensor"
    ).split()
) | {"torch.from_numpy"}
_DEFAULTS = ("torch.set_default_device", "torch.set_default_tensor_type")
_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.len", "builtins.round"})
_DEPTH = 3


def made_on_cpu(script: Script, node: cst.BaseExpression, depth: int = _DEPTH) -> cst.Call | None:
    """The call that makes a tensor in host memory, where the expression surely is that tensor."""
    if isinstance(node, cst.Call) and script.names(node.func) & _MAKERS:
        settled = argument(node, "device") is not None or spreads(node) or _made_like(script, node)
        return None if settled or script.uses(*_DEFAULTS) else node
    source = only_source(script, node) if depth else None
    return made_on_cpu(script, source, depth - 1) if source is not None else None


def _made_like(script: Script, call: cst.Call) -> bool:
    """Whether a default device may be in force: ``with torch.device(...):``."""
    return any(
        isinstance(above, cst.With)
        and any(
            isinstance(a, Device) for item in above.items for a in script.value(item.item).atoms
        )
        for above in script.structure_of(call).up(call)
    )


def is_number(script: Script, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
    """Whether an expression surely is a Python number."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, cst.BinaryOperation):
        return is_number(script, node.left, depth) and is_number(script, node.right, depth)
    if isinstance(node, cst.Call):
        method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "item"
        return (method and not node.args) or bool(script.names(node.func) & _NUMBERS)
    sources = _sources(script, node)
    return bool(depth and sources) and all(is_number(script, s, depth - 1) for s in sources or ())


def only_source(script: Script, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a name is set to, where only one place sets it."""
    sources = _sources(script, node)
    return sources[0] if sources is not None and len(sources) == 1 else None


def _sources(script: Script, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """All that a name is set to; None where that is not seen."""
    if not isinstance(node, cst.Name) or node not in script.owners:
        return None
    locations = set(script.flow.names.of_name(node, script.owners[node]))
    found: list[cst.BaseExpression] = []
    for edge in script.flow.edges_into(locations):
        if not isinstance(edge.node, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
            return None
        targets = getattr(edge.node, "targets", None)
        plain = targets is None or all(isinstance(t.target, cst.Name) for t in targets)
        if edge.node.value is None or not plain:
            return None
        found.append(edge.node.value)
    return found or None


def accelerated(script: Script) -> bool:
    """Whether a model is moved to an accelerator."""
    for node, (_, target) in script.facts.device_moves.items():
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        moved = any(is_model(one) for one in script.instances(node.func.value))
        named = any(_is_gpu(one) for one in target.atoms)
        named = named or any(_is_gpu_text(script, one.value) for one in node.args)
        if moved and (named or node.func.attr.value == "cuda"):
            return True
    return False


def _is_gpu(one: object) -> bool:
    if isinstance(one, Const):
        return isinstance(one.value, str) and one.value.startswith("cuda")
    return isinstance(one, Device) and one.accelerator


def _is_gpu_text(script: Script, node: cst.BaseExpression) -> bool:
    """``f"cuda:{local_rank}"``, also by a name."""
    known = script.flow.ancestry(node, script.owners.get(node, script.module))
    edges = script.flow.edges_into({one.location for one in known if one.location is not None})
    made = [node, *(edge.value for edge in edges if edge.value is not None)]
    return any(
        isinstance(one, cst.FormattedString)
        and bool(one.parts)
        and isinstance(one.parts[0], cst.FormattedStringText)
        and one.parts[0].value.startswith("cuda")
        for one in made
    )
