"""Conditions whose answer is a choice of the run: of its options, settings or files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.taint.sources import LOCAL, TOTAL

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control


def asks_unknown(control: Control, test: cst.BaseExpression) -> bool:
    """Whether a condition reads what nothing in sight sets, but for the default of an option."""
    if control.asks_rank(test) or control.script.labels(test) & {LOCAL, TOTAL}:
        return False  # what a rank has seen of the data is no option
    flow = control.script.flow
    module = control.script.owners.get(test, control.script.module)
    return any(
        one.location is not None
        and all(edge.offers for edge in flow.edges_into({one.location}))
        and one.location[0] != "result"
        for one in flow.ancestry(test, module)
    )
