"""What the interpreter learned about a script: the one place where a pitfall is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import Data, Instance, Value, join


@dataclass(frozen=True, slots=True)
class Site:
    """A node and its file."""

    node: cst.CSTNode
    module: ModuleFile

    @property
    def line(self) -> int:
        """1-based line."""
        return self.module.line(self.node)


@dataclass(frozen=True, slots=True)
class Demand:
    """A place that reads a value of which each rank holds only its part.

    ``reader`` says what reads it, in words for a report. ``calls`` are the calls, outermost
    first, through which the reader was reached.
    """

    site: Site
    data: Data
    reader: str
    calls: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a model: made, moved, changed, called, given to an optimizer."""

    kind: str
    site: Site
    gradient: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """A place that acts on the world outside: kind is write, folder, save, download or bar."""

    kind: str
    site: Site
    name: str
    calls: tuple[Site, ...] = ()


@dataclass(slots=True)
class Facts:
    """All facts of one run of the interpreter."""

    values: dict[cst.CSTNode, Value] = field(default_factory=dict)
    loaders: list[Instance] = field(default_factory=list)
    permutations: dict[cst.CSTNode, Site] = field(default_factory=dict)
    draws: dict[cst.CSTNode, Site] = field(default_factory=dict)  # random rows of a batch
    unwraps: dict[cst.CSTNode, Site] = field(default_factory=dict)  # model.module
    needed: set[cst.CSTNode] = field(default_factory=set)  # reductions of something partial
    iterated: set[Instance] = field(default_factory=set)
    optimizers: list[Instance] = field(default_factory=list)
    models: list[Instance] = field(default_factory=list)
    events: dict[Instance, list[Event]] = field(default_factory=dict)
    demands: dict[tuple[cst.CSTNode, Placement], Demand] = field(default_factory=dict)
    effects: dict[tuple[str, cst.CSTNode], Effect] = field(default_factory=dict)
    backwards: dict[cst.CSTNode, tuple[Site, Value]] = field(default_factory=dict)
    library_calls: dict[str, list[Site]] = field(default_factory=dict)
    shape_uses: set[cst.CSTNode] = field(default_factory=set)
    device_moves: dict[cst.CSTNode, tuple[Site, Value]] = field(default_factory=dict)
    squeezes: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of no named dimension
    callers: dict[cst.CSTNode, set[Site]] = field(default_factory=dict)

    def record(self, node: cst.CSTNode, value: Value) -> Value:
        """Add what an expression was seen to be."""
        known = self.values.get(node)
        self.values[node] = value if known is None or known == value else join(known, value)
        return value

    def event(self, model: Instance, kind: str, site: Site, gradient: bool = False) -> None:
        """Note an event of a model, once for each place, in the order of the run."""
        events = self.events.setdefault(model, [])
        event = Event(kind, site, gradient)
        if event not in events:
            events.append(event)

    def calls_to(self, *prefixes: str) -> Iterator[tuple[str, Site]]:
        """Calls of library functions whose qualified names start so."""
        for name, sites in self.library_calls.items():
            if name.startswith(prefixes):
                yield from ((name, site) for site in sites)
