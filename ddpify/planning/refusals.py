"""The error that says what ddpify does not convert, where, and what would help."""

from __future__ import annotations

import libcst as cst

from ddpify.errors import DdpifyError
from ddpify.understanding.facts import Site
from ddpify.understanding.project import ModuleFile


class Refusal(DdpifyError):
    """The script is readable, but is not converted; exit code 1.

    ``final``: nothing in the script could be converted, whatever the user asks for.
    ``of_the_script``: it does not go by which files may be changed.
    """

    def __init__(
        self,
        module: ModuleFile,
        node: cst.CSTNode | None,
        message: str,
        remedy: str,
        *,
        final: bool = False,
        of_the_script: bool = False,
    ) -> None:
        line = module.line(node) if node is not None else None
        super().__init__(message, path=str(module.path), line=line, remedy=remedy, exit_code=1)
        self.module = module
        self.node = node
        self.final = final
        self.of_the_script = of_the_script


class AlreadyDistributed(Refusal):
    """The script makes a process group or wraps its model itself: there is nothing to convert."""


def at(
    site: Site, message: str, remedy: str, *, final: bool = False, of_the_script: bool = False
) -> Refusal:
    """A refusal at a place of the script."""
    return Refusal(
        site.module, site.node, message, remedy, final=final, of_the_script=of_the_script
    )
