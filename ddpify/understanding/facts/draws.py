"""Random numbers for the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts.places import Calls, Site
from ddpify.understanding.values import Instance


@dataclass(repr=False, slots=True)
class Draw:
    """A call that draws rows for the batch along ``dim``, and what in it is of this rank alone.

    ``counts`` and ``shapes`` give a number of rows or a whole shape, ``alike`` are tensors whose
    kind and size the result takes, ``given`` rows of numbers that it depends on. ``filled`` is what
    it fills in place. ``inside`` are the models whose forwards were in progress, at each visit;
    ``shared`` marks a generator that the ranks share there too.
    """

    site: Site
    dim: int = 0
    counts: list[cst.BaseExpression] = field(default_factory=list)
    shapes: list[cst.BaseExpression] = field(default_factory=list)
    alike: list[cst.BaseExpression] = field(default_factory=list)
    given: list[cst.BaseExpression] = field(default_factory=list)
    filled: cst.BaseExpression | None = None
    inside: set[frozenset[Instance]] = field(default_factory=set)
    shared: bool = False


@dataclass(repr=False, slots=True)
class Draws:
    """What is drawn at random, or made by the size of a batch."""

    draws: dict[cst.CSTNode, Draw] = field(default_factory=dict)  # random rows for a batch
    ragged: dict[cst.CSTNode, Site] = field(default_factory=dict)  # for what a mask left of rows
    counted_slices: dict[cst.CSTNode, Draw] = field(default_factory=dict)  # noise[: len(batch)]
    orders: dict[cst.CSTNode, Draw] = field(default_factory=dict)  # permutations of a batch
    shared_draws: dict[cst.CSTNode, Site] = field(default_factory=dict)  # those of a forward
    # Others of a forward that are for all samples, with no generator to be told.
    drawn_alike: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # For a batch that is made by hand and not split here, as in an evaluation: unless others are.
    perhaps_alike: dict[cst.CSTNode, Site] = field(default_factory=dict)
    drawn_again: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of both, in backward
    # Those for what all ranks hold.
    drawn_replicated: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # The calls that lead to a draw for this rank's rows, and for what all ranks hold.
    drawn_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    drawn_replicated_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    # Of the loader's batch size.
    made_replicated: dict[cst.CSTNode, Site] = field(default_factory=dict)

    @property
    def alike(self) -> dict[cst.CSTNode, Site]:
        """What a forward draws for all samples, with no generator to be told."""
        never_rows = {n: site for n, site in self.perhaps_alike.items() if n not in self.draws}
        return never_rows | self.drawn_alike
