"""Files that define a training and do not start it: what their arguments are is not known."""

from __future__ import annotations

from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Facts
from ddpify.understanding.project import Project


def rather_than(refusal: Refusal, facts: Facts, project: Project) -> Refusal:
    """The refusal of such a file, in place of one that its missing arguments lead to."""
    if _starts_something(facts, project):
        return refusal
    return Refusal(
        project.entry,
        None,
        "there is no training to convert: it only defines functions and classes, and calls none"
        " of them",
        "convert the script that calls them, or add the lines that start the training",
        final=refusal.final,
    )


def _starts_something(facts: Facts, project: Project) -> bool:
    """Whether a line outside of functions trains, or calls a function of the project."""
    called = (site for sites in facts.callers.values() for site in sites)
    trained = (site for site, _ in facts.backwards.values())
    entry = project.entry
    return any(
        site.module is entry and entry.function(site.node) is None for site in (*called, *trained)
    )
