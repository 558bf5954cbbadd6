"""Reductions that nothing comes to: whether a run without them would learn anything else.

They are dropped, and the last facts were learned with them. A run goes by the code and by what is
decided alone. Where these reductions gave back, in all passes and trials, what they got, and all
other decisions are those of that run, one without them would take the same steps.
"""

from __future__ import annotations

from ddpify.planning.plan import Plan
from ddpify.understanding.choices import Choices


def left_out(plan: Plan, asked: Choices) -> bool:
    """Whether the facts of a plan are, by now, those of a run without its idle reductions.

    Args:
        plan: What a run on ``asked`` has led to. Its facts lose what tells of the reductions.
        asked: What was decided before that run.
    """
    if not plan.idle:
        return True
    facts = plan.facts.reductions
    if not facts.effective.isdisjoint(plan.idle) or not plan.choices.are_without(plan.idle, asked):
        return False
    for node in plan.idle:
        facts.reduced_replicated.pop(node, None)
        facts.replicated_through.pop(node, None)
    return True
