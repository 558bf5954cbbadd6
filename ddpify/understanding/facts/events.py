"""What happens at a place: to a model, to the world outside, to a value that ranks hold in part."""

from __future__ import annotations

from ddpify.records import record
from ddpify.understanding.facts.places import Calls, Site
from ddpify.understanding.values import Data


@record
class Demand:
    """A place that reads a value of which each rank holds only its part.

    ``reader`` says what reads it, in words for a report. ``calls`` are the calls, outermost
    first, through which the reader was reached.
    """

    site: Site
    data: Data
    reader: str
    calls: Calls = ()


@record
class Event:
    """Something that happens to a model: made, moved, changed, called, given to an optimizer."""

    kind: str
    site: Site
    gradient: bool = False


@record
class Effect:
    """A place that acts on the world outside: ``codemods.effects`` lists the kinds."""

    kind: str
    site: Site
    name: str
    calls: Calls = ()

    @property
    def reached_from(self) -> Site | None:
        """The innermost call, in a file that may be changed, that leads to a file that may not."""
        if self.site.module.editable:
            return None
        return next((call for call in reversed(self.calls) if call.module.editable), None)


@record
class Switch:
    """A place where a model may change its mode, ``True`` for training; perhaps another model."""

    site: Site
    modes: frozenset[bool]
    surely: bool = False
