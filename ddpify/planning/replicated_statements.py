"""Statements whose calls are for all ranks alike, beside calls of the same functions on a batch.

They are put under ``with dd.replicated():``, in which reductions and draws leave what they get as
it is.
"""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.facts import Calls, Facts, Site
from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN


def site(facts: Facts, path: Calls, known: set[Site]) -> Site | None:
    """The innermost call of a path that is made for all ranks alike; None where there is none.

    Args:
        facts: What is known of the script.
        path: The calls that lead to what is done for all ranks, outermost first.
        known: The calls that lead there for a batch, too.
    """
    apart = (call for call in reversed(path) if call.module.editable and call not in known)
    return next((call for call in apart if _takes_no_batch(facts, call)), None)


def calls(facts: Facts, node: cst.CSTNode) -> list[Site]:
    """The calls that lead to a reduction with replicated values; none where one takes rows."""
    parts = facts.reductions.reduced_through.get(node, set())
    known = {call for path in parts for call in path}
    found = [
        site(facts, path, known)
        for path in facts.reductions.replicated_through.get(node, set()) - parts
    ]
    return [] if None in found else [call for call in found if call is not None]


def _takes_no_batch(facts: Facts, call: Site) -> bool:
    """Whether the statement that a call stands in is simple, and takes nothing of a batch."""
    statement = call.module.statement(call.node)
    nodes = set(walk(statement))
    writes = any(effect.site.node in nodes for effect in facts.effects.values())
    held = (data for node in nodes for data in facts.values.get(node, UNKNOWN).data)
    simple = isinstance(statement, cst.SimpleStatementLine)
    return simple and not writes and not any(data.placement.local for data in held)
