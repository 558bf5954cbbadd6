"""What the interpreter learned about a script: the one place where a pitfall is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.budget import Exhausted
from ddpify.understanding.facts.batches import Batches, Loading
from ddpify.understanding.facts.draws import Draws
from ddpify.understanding.facts.events import Demand, Effect, Event, Switch
from ddpify.understanding.facts.forwards import Forwards
from ddpify.understanding.facts.gradients import Gradients
from ddpify.understanding.facts.handmade import HandmadeBatches
from ddpify.understanding.facts.places import Site
from ddpify.understanding.facts.reductions import Reductions
from ddpify.understanding.facts.rows import Rows, Sizes
from ddpify.understanding.facts.runtime import RuntimeUses
from ddpify.understanding.values import Instance, Value, join


@dataclass(eq=False, repr=False, slots=True)
class Facts:
    """All facts of one run of the interpreter: those that all ask for, and others by topic."""

    values: dict[cst.CSTNode, Value] = field(default_factory=dict)
    loaders: list[Instance] = field(default_factory=list)
    optimizers: list[Instance] = field(default_factory=list)
    models: dict[Instance, None] = field(default_factory=dict)  # in the order of making
    buffers: set[tuple[Instance, str]] = field(default_factory=set)  # of models, by their names
    parameters: set[tuple[Instance, str]] = field(default_factory=set)  # which models make
    events: dict[Instance, list[Event]] = field(default_factory=dict)
    _known_events: set[tuple[Instance, Event]] = field(default_factory=set)
    # By the reader and the placement that it gets; numbers of rows also by where they are counted.
    demands: dict[tuple[object, ...], Demand] = field(default_factory=dict)
    # The same readers through other calls, one for each call that leads to them, by the first.
    demands_again: dict[Demand, dict[Site, Demand]] = field(default_factory=dict)
    effects: dict[tuple[str, cst.CSTNode], Effect] = field(default_factory=dict)
    backwards: dict[cst.CSTNode, tuple[Site, Value]] = field(default_factory=dict)
    library_calls: dict[str, dict[cst.CSTNode, Site]] = field(default_factory=dict)
    device_moves: dict[cst.CSTNode, tuple[Site, Value]] = field(default_factory=dict)
    # Functions whose calls are taken together, and may not all give parts, with a call.
    taken_together: dict[cst.CSTNode, Site] = field(default_factory=dict)
    callers: dict[cst.CSTNode, set[Site]] = field(default_factory=dict)
    # By the places of ``train()`` and ``eval()``.
    switches: dict[Instance, dict[Site, Switch]] = field(default_factory=dict)
    trained: set[cst.CSTNode] = field(default_factory=set)  # loaders' places that feed a backward

    batches: Batches = field(default_factory=Batches)
    loading: Loading = field(default_factory=Loading)
    rows: Rows = field(default_factory=Rows)
    sizes: Sizes = field(default_factory=Sizes)
    random: Draws = field(default_factory=Draws)
    reductions: Reductions = field(default_factory=Reductions)
    forwards: Forwards = field(default_factory=Forwards)
    gradients: Gradients = field(default_factory=Gradients)
    by_hand: HandmadeBatches = field(default_factory=HandmadeBatches)
    runtime: RuntimeUses = field(default_factory=RuntimeUses)

    # Why a further pass, which might have found something else, did not come to its end.
    cut_short: Exhausted | None = None
    # Whether calls were taken together that other runs tell apart.
    brief: bool = False

    @property
    def iterated_loaders(self) -> list[Instance]:
        """The loaders that the script goes through."""
        return [loader for loader in self.loaders if loader in self.loading.iterated]

    def followed(self) -> Facts:
        """No facts yet, but for those that outlast a pass: with these the next one starts."""
        return Facts(
            values=self.values, callers=self.callers, switches=self.switches, trained=self.trained
        )

    def tried(self) -> Facts:
        """No facts yet, for a trial: its calls and backwards are some of the script."""
        return Facts(callers=self.callers, switches=self.switches, trained=self.trained)

    def record(self, node: cst.CSTNode, value: Value) -> Value:
        """Add what an expression was seen to be; the same, as the object that was seen before."""
        known = self.values.get(node)
        if known is None:
            self.values[node] = value
        elif known is not value:
            if known.atoms == value.atoms:
                return known  # what is made of it is soon found to be equal, too
            if not known.covers(value):
                self.values[node] = join(known, value)
        return value

    def called_from(self, function: cst.CSTNode, site: Site) -> bool:
        """Note a call of a function; whether it is a new one."""
        known = self.callers.setdefault(function, set())
        new = site not in known
        known.add(site)
        return new

    def event(self, model: Instance, kind: str, site: Site, gradient: bool = False) -> None:
        """Note an event of a model, once for each place, in the order of the run."""
        event = Event(kind, site, gradient)
        if (model, event) not in self._known_events:
            self._known_events.add((model, event))
            self.events.setdefault(model, []).append(event)

    def calls_to(self, *prefixes: str) -> Iterator[tuple[str, Site]]:
        """Calls of library functions whose qualified names start so."""
        for name, sites in self.library_calls.items():
            if name.startswith(prefixes):
                yield from ((name, site) for site in sites.values())
