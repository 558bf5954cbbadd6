"""Whether the user of a script has a say in the device, or only the machine."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Value


def may_choose(facts: Facts, asked: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether an expression for a device depends on more than literals and what is there."""
    if isinstance(asked, cst.Name):
        return not _is_literal(asked, module)
    if isinstance(asked, cst.IfExp):
        return not _is_availability(facts, asked.test, module)
    return isinstance(asked, (cst.Attribute, cst.Subscript))


def asks_what_is_there(facts: Facts, test: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether a condition asks for an accelerator, there or where its names are set.

    One whose names are set elsewhere may do so.
    """
    names = {code_of(node) for node in walk(test) if isinstance(node, (cst.Name, cst.Attribute))}
    set_by = [one for name in names for one in _set_by(name, module)]
    asked = (node for part in (test, *set_by) for node in walk(part))
    return any(_is_question(facts.values.get(node)) for node in asked) or not set_by


def _is_availability(facts: Facts, test: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether a condition asks for nothing but whether there is an accelerator."""
    if isinstance(test, cst.Name):
        set_by = _set_by(test.value, module)
        return len(set_by) == 1 and _is_availability(facts, set_by[0], module)
    return isinstance(test, cst.Call) and _is_question(facts.values.get(test.func))


def _is_question(called: Value | None) -> bool:
    """Whether this is ``torch.cuda.is_available`` or its like."""
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
