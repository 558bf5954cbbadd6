"""Call hooks on gradients of parameters with those of the global batch, not with a rank's own."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import brief


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap what ``parameter.register_hook`` is given."""
    for node, site in plan.facts.gradient_hooks.items():
        if isinstance(node, cst.Call) and node.args:
            edits.wrap(node.args[0].value, f"{plan.options.alias}.gradient_hook")
            edits.note(site, f"{brief(node)}: called with the gradient of the global batch")
