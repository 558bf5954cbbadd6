"""Names that hold an accelerator as text become the device of the rank where they are set."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import dotted

_KEYWORDS = ("device", "map_location")


def only_name(plan: Plan, site: Site) -> cst.Name | None:
    """The name in ``place = "cuda:0" if ... else "cpu"`` that is only read as a device, if it is.

    Text that is also printed or compared stays text.
    """
    node, module = site.node, site.module
    assert isinstance(node, cst.Assign)
    target = node.targets[0].target
    if len(node.targets) > 1 or not isinstance(target, cst.Name) or not _is_text(node.value):
        return None
    uses = [
        other
        for other in module.parents
        if isinstance(other, cst.Name) and other.value == target.value and other is not target
    ]
    alone = module in plan.project.entries  # nobody imports the name
    return target if alone and uses and all(_is_device(module, use) for use in uses) else None


def _is_text(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    return isinstance(node, cst.SimpleString)


def _is_device(module: ModuleFile, use: cst.Name) -> bool:
    """Whether a name stands where PyTorch takes a device."""
    argument = module.parents[use]
    call = module.parents.get(argument)
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if argument.keyword is not None:
        return argument.keyword.value in _KEYWORDS
    moved = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
    return call.args[0] is argument and (moved or dotted(call.func) == "torch.device")
