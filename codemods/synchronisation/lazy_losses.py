"""Exchange the value of a loss where it is read, if it is read now and then."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.lazy_losses import is_lazy
from ddpify.planning.plan import Plan


def edit(plan: Plan, edits: Edits) -> None:
    """Let such reductions wait for their first reader; after all other edits."""
    for reduction in plan.reductions.values():
        if is_lazy(plan, reduction, edits):
            edits.add_keyword(reduction.node, "lazy=True")
