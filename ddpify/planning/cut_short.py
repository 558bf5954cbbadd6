"""What `ddpify convert` says of a script whose understanding takes more steps than it may."""

from __future__ import annotations

from ddpify.planning.refusals import Refusal
from ddpify.understanding.budget import Exhausted
from ddpify.understanding.project import Project

_REMEDY = (
    "this is a limit of ddpify's, not an error of the script; convert a smaller entry, such as one"
    " that trains in one way alone"
)


class CutShort(Refusal):
    """The analysis is incomplete, so that nothing in the script may be converted."""

    def __init__(self, project: Project, cause: Exhausted) -> None:
        node = cause.function
        module = project.owner(node) if node is not None else None
        super().__init__(
            module or project.entry, node, str(cause), _REMEDY, final=True, of_the_script=True
        )
        self.cause = cause
