"""Call hooks with what those of one process get: gradients, and rows, of the global batch."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.syntax import brief


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap what ``parameter.register_hook`` is given, and hooks of layers and of samples."""
    for node, site in plan.facts.gradients.gradient_hooks.items():
        if isinstance(node, cst.Call) and node.args:
            edits.wrap(node.args[0].value, f"{plan.options.alias}.gradient_hook")
            edits.note(site, f"{brief(node)}: called with the gradient of the global batch")
    _of_samples(plan, edits)


def _of_samples(plan: Plan, edits: Edits) -> None:
    """Hooks that do more with samples than treat each alone."""
    for node, hook in plan.facts.forwards.sample_hooks.items():
        given = node.args if isinstance(node, cst.Call) else ()
        if not given or not hook.site.module.editable:
            plan.refuse(
                Refusal(
                    hook.site.module,
                    node,
                    "this hook gets a rank's samples where one process has those of the batch",
                    "convert the whole project, or register the hook in the script",
                )
            )
            continue
        if hook.rowless:
            plan.refuse(
                Refusal(
                    hook.site.module,
                    node,
                    "this hook puts one result of all samples in the place of the samples",
                    "let it return a row for each sample, or compute the result in the forward",
                )
            )
            continue
        function = "batch_gradient_hook" if hook.gradient else "batch_hook"
        extra = f", dim={hook.dim}" if hook.dim else ""
        edits.wrap(given[0].value, f"{plan.options.alias}.{function}", extra)
        what = "gradients of the samples" if hook.gradient else "samples"
        edits.note(hook.site, f"{brief(node)}: called with the {what} of all ranks")
