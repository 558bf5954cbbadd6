"""One script as the rules see it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.errors import DdpifyError
from ddpify.lint import doubts, parts
from ddpify.lint.control import Control
from ddpify.lint.kinds import SINGLE
from ddpify.lint.parts import Part
from ddpify.lint.reading import Reading
from ddpify.understanding.libraries.distributed import REDUCING
from ddpify.understanding.values import Instance

if TYPE_CHECKING:
    from ddpify.planning.plan import Plan
    from ddpify.planning.refusals import Refusal


class Script(Reading):
    """A file that is read, with the control flow in it and what convert would do."""

    @cached_property
    def control(self) -> Control:
        """Under which conditions code runs."""
        return Control(self)

    def may_be_guarded(self, node: cst.CSTNode) -> bool:
        """Whether anything unknown may keep a node from running on every rank."""
        return doubts.may_be_guarded(self.control, node)

    @cached_property
    def works_on_parts(self) -> bool:
        """Whether anything in sight is shared out among ranks: a training, data, a result."""
        if self.facts.backwards or self.control.spawned or self.has_runtime:
            return True
        if any(map(self.is_sharded, self.facts.loaders)):
            return True
        if any(self.control.asks_rank(one.test) for one in self.structure.all(cst.If, cst.IfExp)):
            return True
        return self.uses(*REDUCING)

    @cached_property
    def parts(self) -> list[Part]:
        """What a script with ddpify's runtime reads although a rank holds a part of it."""
        return parts.parts(self)

    @cached_property
    def training_loaders(self) -> list[Instance]:
        """The loaders whose batches reach ``backward()``."""
        return [one for one in self.facts.loaders if one.site in self._trained_sites]

    @cached_property
    def _trained_sites(self) -> set[cst.CSTNode]:
        found = set(self.choices.trained)
        for node, _ in self.facts.backwards.items():
            for loop in self.control.around(node):
                iterated = loop.iter if isinstance(loop, cst.For) else loop.test
                found |= {one.site for one in self.loaders_in(iterated)}
        return found

    @cached_property
    def _planned(self) -> Plan | Refusal | None:
        """What convert would do with a script of one process, or why it would not."""
        from ddpify.planning.deciding import make_plan
        from ddpify.planning.options import Options
        from ddpify.planning.refusals import Refusal

        if self.kind != SINGLE:
            return None
        try:
            return make_plan(self.project, Options(), (self.facts, self.choices))
        except Refusal as refusal:
            return refusal

    @property
    def plan(self) -> Plan | None:
        """The plan of a conversion, where there is one."""
        return self._planned if not isinstance(self._planned, DdpifyError) else None

    @property
    def refusal(self) -> Refusal | None:
        """Why convert does not take a script of one process."""
        return self._planned if isinstance(self._planned, DdpifyError) else None
