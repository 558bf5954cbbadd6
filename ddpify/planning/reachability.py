"""By which statements of one function the training comes to places in others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.project import Project


class Reach:
    """What leads from the function around ``scope`` to other places of the project."""

    def __init__(self, facts: Facts, project: Project, scope: Site) -> None:
        self.facts = facts
        self.project = project
        self.module = scope.module
        self.function = scope.module.structure.function(scope.node)

    def places(self, sites: Iterator[Site]) -> list[cst.CSTNode | None]:
        """The nodes of the function that lead to any of the sites; None for other ways to one."""
        return [place for site in sites for place in self._places(site, frozenset())]

    def _places(self, site: Site, seen: frozenset[cst.CSTNode]) -> Iterator[cst.CSTNode | None]:
        function = site.module.structure.function(site.node)
        if site.module is self.module and function is self.function:
            yield site.node
        elif function is None:
            yield None
        elif function not in seen:
            callers = self.facts.callers.get(function, set())
            if not callers and function.name.value in self._named:
                yield None  # perhaps called by code that ddpify cannot read
            for caller in callers:
                yield from self._places(caller, seen | {function})

    @cached_property
    def _named(self) -> frozenset[str]:
        """The names that the project uses other than to define a function."""
        return frozenset(
            name.value
            for file in self.project.files
            for name in file.structure.all(cst.Name)
            if not isinstance(file.parents[name], cst.FunctionDef)
        )


def leading_to(facts: Facts, *sites: Site) -> list[Site]:
    """Sites, the calls of the functions that they are in, and so on."""
    known = list(dict.fromkeys(sites))
    found = set(known)
    for one in known:
        function = one.module.structure.function(one.node)
        callers = facts.callers.get(function, set()) if function is not None else set()
        known += [caller for caller in callers if caller not in found]
        found |= callers
    return known
