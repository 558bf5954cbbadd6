"""What `ddpify convert` would do with a script, as points of a list: its own notes and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.codes import BY_NAME
from ddpify.records import record
from ddpify.understanding.facts import Site

if TYPE_CHECKING:
    from ddpify.planning.edits import Note
    from ddpify.planning.refusals import Refusal
    from ddpify.understanding.choices import Choices
    from ddpify.understanding.facts import Facts
    from ddpify.understanding.project import Project

_OTHER = BY_NAME["conversion-step"]
_REFUSED = BY_NAME["not-converted"]


@record
class Step:
    """One point: the code of the rule that it is about, the place, and what is done there."""

    code: str
    site: Site
    text: str

    @property
    def refused(self) -> bool:
        """Whether nothing is done, and the text says why."""
        return self.code == _REFUSED


def steps_of(project: Project, known: tuple[Facts, Choices] | None) -> Iterator[Step]:
    """The points of a script that is not distributed, in all of its files.

    Args:
        project: The script, with files beside it that a conversion may change.
        known: What interpreting it gave, where all of it is known.

    Raises:
        Exhausted: Deciding takes more steps than the project's budget has left.
    """
    from ddpify.codemods.pipeline import collect
    from ddpify.planning.conversion_options import Options
    from ddpify.planning.cut_short import CutShort
    from ddpify.planning.refusals import Refusal
    from ddpify.planning.solver import make_plan

    if project.budget.planning_ended is not None:
        raise project.budget.planning_ended
    try:
        plan = make_plan(project, Options(force=True), known)
        edits = collect(plan)
    except CutShort as refusal:
        project.budget.planning_ended = refusal.cause
        raise refusal.cause from None
    except Refusal as refusal:
        yield _refused(refusal)
        return
    refused = [_refused(one) for one in plan.refusals]
    yield from refused
    left = {_statement(one) for one in refused}
    yield from (one for one in map(_done, edits.notes) if _statement(one) not in left)


def _statement(step: Step) -> cst.CSTNode:
    """The statement of a point: where one is refused, nothing else is done."""
    return step.site.module.structure.statement(step.site.node)


def _refused(refusal: Refusal) -> Step:
    site = Site(refusal.node or refusal.module.tree, refusal.module)
    return Step(_REFUSED, site, refusal.message)


def _done(note: Note) -> Step:
    assert note.site is not None
    text = f"look at this: {note.text}" if note.attention else note.text
    return Step(note.code or _OTHER, note.site, text)
