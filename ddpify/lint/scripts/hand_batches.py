"""Trainings whose batches no loader gives: what a wrapped model gets there is a rank's own.

A script that wraps its model trains on several ranks, each with samples of its own; where they are
drawn by hand, or come from code that is not seen, the model's results are the first to tell.
"""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.understood import Understood


def own_calls(script: Understood) -> list[cst.Call]:
    """Calls of wrapped models, with gradients, where no known loader is trained on."""
    if script.choices.trained or script.facts.trained or not script.facts.backwards:
        return []
    events = (event for wrap in script.wraps for event in script.events(wrap.wrapper, "call"))
    found = {event.site.node: None for event in events if event.gradient}
    return [one for one in found if isinstance(one, cst.Call)]


def own_loops(script: Understood, calls: list[cst.Call]) -> set[cst.CSTNode]:
    """The innermost loops around these calls, or around the calls of their functions."""
    found: set[cst.CSTNode] = set()
    for call in calls:
        structure = script.structure_of(call)
        loops = structure.loops(call)[:1]
        function = structure.function(call)
        if not loops and function is not None:
            sites = [site.node for site in script.facts.callers.get(function, ())]
            loops = [one for site in sites for one in script.structure_of(site).loops(site)[:1]]
        found.update(loops)
    return found
