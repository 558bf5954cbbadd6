"""Scale learning rates with the global batch, where the user names a rule for it."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap the calls that make optimizers."""
    rule = plan.options.scale_lr
    for optimizer in plan.facts.optimizers if rule else ():
        site = Site(optimizer.site, optimizer.module)
        if not site.module.editable:
            plan.refuse(
                Refusal(
                    site.module,
                    site.node,
                    "the learning rate to scale is set in another file",
                    "convert the whole project, or leave out --scale-lr",
                )
            )
            continue
        edits.wrap(site.node, f"{plan.options.alias}.scale_lr", f', "{rule}"')
        text = f"learning rate scaled with the number of ranks ({rule} rule)"
        edits.note(site, text, attention=True)
