"""Share among the ranks a forward of rows that they all hold, such as a generator's fixed noise."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.models.trained_models import trained_models

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import ReplicatedCall
from ddpify.understanding.syntax import brief


def edit(plan: Plan, edits: Edits) -> None:
    """Call a trained model through ``spread`` where its arguments are the same on all ranks."""
    trained = set(trained_models(plan))
    for node, call in plan.facts.forwards.replicated_calls.items():
        shared = any(model in plan.facts.forwards.trained_by_rows for model in call.models)
        if call.gathered and not call.in_loop and not shared:
            edits.note(call.site, "every rank trains this on all rows that were collected")
        if not (call.models <= trained and call.site.module.editable):
            continue
        if isinstance(node, cst.Call):
            _share(plan, edits, node, call)
    _layers_on_all_rows(plan, edits)


def _share(plan: Plan, edits: Edits, node: cst.Call, call: ReplicatedCall) -> None:
    """Let each rank compute its part; all of it, where autograd.grad() may go back through it.

    What mixes rows is no sum of parts. Batch normalisation must not take it for one, either.
    """
    rowwise = plan.facts.forwards.treat_rows_alone(call.models) and not call.single
    graded = bool(plan.facts.gradients.replicated_gradients)
    if not rowwise and not (call.normalises and call.in_loop and not call.gathered):
        return
    whole = graded or not rowwise
    edits.wrap(node.func, f"{plan.options.alias}.spread", ", whole=True" if whole else "")
    edits.note(call.site, _MIXED if not rowwise else _WHOLE if graded else _IN_PARTS)


_IN_PARTS = "each rank computes its part of rows that all of them hold"
_WHOLE = "every rank computes this, of rows that all of them hold: autograd.grad() needs all of it"
_MIXED = "every rank computes this, of rows that all of them hold, as one batch of its own"


def _layers_on_all_rows(plan: Plan, edits: Edits) -> None:
    """Say where a forward goes on with layers after it has gathered rows: on those of all ranks."""
    gathered = plan.facts.forwards.gathered_in_forward.values()
    inside = {site.module.function(site.node) for site in gathered}
    for node, site in plan.facts.forwards.on_all_rows.items():
        if site.module.function(node) in inside:
            edits.note(site, f"{brief(node)}: {_ON_ALL_ROWS}", attention=True)


_ON_ALL_ROWS = "every rank works on the whole batch, which something else here reads"
