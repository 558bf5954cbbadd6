"""Say for which arguments a script was converted: others may take other branches."""

from __future__ import annotations

import shlex

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan


def edit(plan: Plan, edits: Edits) -> None:
    """Note where the arguments are read; nothing where any may come."""
    given = plan.options.arguments
    for site in plan.facts.runtime.reads_arguments.values() if given else ():
        text = f"converted for the arguments {shlex.join(given)}, and else for the defaults"
        edits.note(site, f"{text}: what others would run stays as it was", attention=True)
