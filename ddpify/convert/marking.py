"""Comments at the places that ``--force`` leaves as they are."""

from __future__ import annotations

from textwrap import wrap

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site

_WIDTH = 88


def mark(refusal: Refusal, plan: Plan, edits: Edits) -> None:
    """Say above a statement why it is not converted and what would help.

    What has no line of its own, or stands in a file that is not changed, is said at the start of
    the script.
    """
    module, node = refusal.module, refusal.node
    text = f"ddpify: not converted: {refusal.message}; {refusal.remedy}"
    if not module.editable:
        text = f"ddpify: not converted ({refusal.location}): {refusal.message}; {refusal.remedy}"
        module, node = plan.project.entry, None
    statement = module.tree.body[0] if node is None else module.statement(node)
    edits.comment(statement, wrap(text, _WIDTH, subsequent_indent="  "))
    edits.note(Site(statement, module), f"not converted: {refusal.message}", unconverted=True)
