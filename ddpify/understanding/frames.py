"""The calls and loops that are in progress in a run of the interpreter."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts import Site
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import Data, Instance, Scope, Value


@dataclass(eq=False, repr=False, slots=True)
class Loop:
    """A loop in progress: names its body has set, and whether each round takes a batch."""

    node: cst.For | cst.While
    taken: bool = False  # a batch in each round, as far as is known
    asked: bool = False  # about it, when it was not known
    takes_replicated: bool = False  # batches that are not split
    # The loaders that batches come from, those that may give the same batch together.
    loaders: list[frozenset[Instance]] = field(default_factory=list)
    own: frozenset[Instance] = frozenset()  # of those, the ones that the loop itself goes through
    element: Value = field(default_factory=Value)  # what each round gets
    rows: tuple[Data, ...] = ()  # the rows, or the positions of rows, of which each round gets one
    assigned: set[str] = field(default_factory=set)
    left: list[dict[str, Value]] = field(default_factory=list)
    broken: list[dict[str, Value]] = field(default_factory=list)  # by ``break``
    # Names that this round adds to, with what that gave; None where adding may do more.
    totals: dict[str, Value | None] = field(default_factory=dict)

    @property
    def takes_batches(self) -> bool:
        """Whether each round takes a batch: not known before the first ``next()`` of a run."""
        self.asked |= not self.taken
        return self.taken


@dataclass(eq=False, repr=False, slots=True)
class Rounds:
    """What the rounds of one loop over samples do to objects, in all passes."""

    loop: cst.CSTNode
    made: set[Instance] = field(default_factory=set)  # by a round, for itself
    changed: set[object] = field(default_factory=set)  # containers, and attributes of objects
    read: set[object] = field(default_factory=set)
    asked: bool = False  # whether they depend on each other

    @property
    def depend(self) -> bool:
        """Whether a round reads what another one changes."""
        return not self.changed.isdisjoint(self.read)

    def note(self, places: set[object], place: object) -> bool:
        """Add to ``changed`` or ``read``; whether that is another answer than was given."""
        before = self.depend
        places.add(place)
        return self.asked and not before and self.depend


@dataclass(eq=False, repr=False, slots=True)
class Frame:
    """One call in progress."""

    module: ModuleFile
    scope: Scope
    call: Site | None = None
    receiver: Instance | None = None
    runs: cst.CSTNode | None = None  # the function that is called
    in_forward: bool = False
    kept: bool = False  # what it makes is given to later calls again, as a cache does
    returned: list[Value] = field(default_factory=list)
    # What runs is reached only where another value than its default is given to a parameter.
    against_default: bool = False
    returned_against: list[Value] = field(default_factory=list)  # what is returned then
    loops: list[Loop] = field(default_factory=list)
    inner_steps: int = 0  # that the calls within this one took
    # Whether this method was called with what its caller has set of its object; and what is set
    # at each end of the call, by attribute.
    builds: bool = False
    left: list[dict[str, Value]] = field(default_factory=list)
    tells: bool = False  # whether a round of a loop has set attributes of an object here
