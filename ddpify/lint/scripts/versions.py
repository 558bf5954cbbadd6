"""Code that only runs under some versions of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.control import Control
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import VERSION

_ASKS = frozenset({"builtins.hasattr", "builtins.getattr", "importlib.util.find_spec"})


def depends_on_version(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition around a node asks which PyTorch is installed, or what it offers."""
    return any(_asks_version(control, guard.test) for guard in control.guards(node))


def _asks_version(control: Control, test: cst.BaseExpression) -> bool:
    script = control.script
    module = script.owners.get(test, script.module)
    if VERSION in script.flow.sources(test, module):
        return True
    return any(_asks_torch(control, one) for one in _calls(control, test))


def _calls(control: Control, test: cst.BaseExpression) -> Iterator[cst.Call]:
    """The calls in a condition, and those that its names are set to."""
    script = control.script
    locations = script.flow.locations(test, script.owners.get(test, script.module))
    made = [edge.value for edge in script.flow.edges_into(locations) if edge.value is not None]
    for one in (test, *made):
        yield from (inner for inner in walk(one) if isinstance(inner, cst.Call))


def _asks_torch(control: Control, call: cst.Call) -> bool:
    """``hasattr(torch, "compile")``, ``find_spec("torch.fx")``."""
    names = control.script.names
    if not names(call.func) & _ASKS or not call.args:
        return False
    asked = control.script.value(call.args[0].value).constant()
    about = {asked} if isinstance(asked, str) else names(call.args[0].value)
    return any(one.split(".")[0] == "torch" for one in about)
