"""Where calls write to."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.facts import Effect
from ddpify.understanding.syntax import argument


def targets(effect: Effect) -> list[cst.BaseExpression]:
    """The arguments that say where a call writes to."""
    call = effect.site.node
    if not isinstance(call, cst.Call):
        return []
    if effect.kind == "save":
        given = argument(call, "f", 1)
        return [given.value] if given is not None else []
    found = [a.value for a in call.args]
    if isinstance(call.func, cst.Attribute):
        found.append(call.func.value)
    return found
