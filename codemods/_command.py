"""Lets each codemod run by itself under ``python -m libcst.tool codemod``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import libcst as cst
from libcst.codemod import CodemodCommand, SkipFile

from ddpify.errors import DdpifyError
from ddpify.planning.conversion_options import Options
from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.solver import make_plan
from ddpify.source import source_from_bytes
from ddpify.understanding.project import Project


class Command(CodemodCommand):
    """A codemod as a LibCST command: it skips files that ddpify does not convert."""

    @property
    @abstractmethod
    def EDITS(self) -> tuple[Callable[[Plan, Edits], None], ...]:
        """What it does, in order."""

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The changed tree, from ddpify's own reading of the file."""
        name = self.context.filename or "<module>"
        try:
            project = Project(source_from_bytes(tree.bytes, name))
            plan = make_plan(project, Options())
            edits = Edits()
            for edit in self.EDITS:
                edit(plan, edits)
        except DdpifyError as error:
            raise SkipFile(str(error)) from error
        return edits.apply(project.entry)
