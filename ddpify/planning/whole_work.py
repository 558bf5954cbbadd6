"""How much of a script's work every rank still does by itself, after a conversion."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import at
from ddpify.understanding.facts import Site


def refuse_unshared_training(plan: Plan, edits: Edits) -> None:
    """Refuse a training whose models only ever work on what all ranks hold.

    Raises:
        Refusal: Every rank would do all of the work.
    """
    forwards = plan.facts.forwards
    spread = any(_is_spread(plan, edits, site) for site in forwards.whole_work.values())
    if forwards.shared_work or spread or not plan.facts.backwards:
        return
    for site in forwards.whole_training.values():
        plan.refuse(at(site, _UNSHARED, _DIVIDED))


_UNSHARED = (
    "the model trains on the same samples on every rank, which would do all of the work: what it"
    " gets is not computed from a rank's rows of a batch"
)
_DIVIDED = "compute what it gets from the batch's rows, without a loop over single samples"


def left_whole(plan: Plan, edits: Edits) -> str:
    """Says which calls of models no rank shares with others, where most are such; else empty.

    A call counts if it is in a loop, as often as it is written: how often it runs is not known.
    """
    shared = plan.facts.forwards.shared_work
    whole = {
        node: site
        for node, site in plan.facts.forwards.whole_work.items()
        if node not in shared and not _is_spread(plan, edits, site)
    }
    if len(whole) <= len(shared):
        return ""
    places = sorted({(str(s.module.source.path), s.module.line(s.node)) for s in whole.values()})
    several = len({path for path, _ in places}) > 1
    named = [f"{path}:{line}" if several else str(line) for path, line in places]
    where = "" if several else "line " if len(named) == 1 else "lines "
    shown = ", ".join(named[:5]) + (", ..." if len(named) > 5 else "")
    count = f"{len(whole)} of {len(whole) + len(shared)} calls of models"
    return f"{count} work on the same samples on every rank ({where}{shown})"


def _is_spread(plan: Plan, edits: Edits, site: Site) -> bool:
    """Whether ranks share the rows of a call, which all of them hold."""
    spread = f"{plan.options.alias}.spread"
    return isinstance(site.node, cst.Call) and spread in edits.wrapped.get(site.node.func, ())
