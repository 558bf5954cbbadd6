"""Whether the user of a script has a say in the device, or only the machine."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.labels.origins import library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of


def may_choose(facts: Facts, asked: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether an expression for a device depends on more than literals and what is there."""
    if isinstance(asked, cst.Name):
        return not _is_literal(asked, module)
    if isinstance(asked, cst.IfExp):
        return not _is_availability(facts, asked.test, module)
    return isinstance(asked, (cst.Attribute, cst.Subscript))


def asks_what_is_there(test: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether a condition comes from ``is_available()``, there or where its names are set."""
    names = {code_of(node) for node in walk(test) if isinstance(node, (cst.Name, cst.Attribute))}
    if any(name.endswith("is_available") for name in names):
        return True
    set_by = [code_of(one) for name in names for one in _set_by(name, module)]
    return any("is_available" in code for code in set_by) or not set_by


def _is_availability(facts: Facts, test: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether a condition asks for nothing but whether there is an accelerator."""
    if isinstance(test, cst.Name):
        set_by = _set_by(test.value, module)
        return len(set_by) == 1 and _is_availability(facts, set_by[0], module)
    called = facts.values.get(test.func) if isinstance(test, cst.Call) else None
    return any(
        name.startswith("torch.") and name.endswith(".is_available")
        for name in library_names(called)
    )


def _is_literal(name: cst.Name, module: ModuleFile) -> bool:
    """Whether a name is only ever set to numbers or text."""
    set_by = _set_by(name.value, module)
    return bool(set_by) and all(isinstance(v, (cst.Integer, cst.SimpleString)) for v in set_by)


def _set_by(name: str, module: ModuleFile) -> list[cst.BaseExpression]:
    return [
        node.value
        for node in module.parents
        if isinstance(node, cst.Assign) and any(code_of(t.target) == name for t in node.targets)
    ]
