"""What a conversion has decided about a script."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field, fields

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts import Site
from ddpify.understanding.values import Instance


@record
class BatchSwitch:
    """The loaders, of one place, whose batch is made the current one; ``code`` names the loader.

    Or it is rows of an earlier batch, which the name ``rows`` holds; ``names`` are those that may
    hold what came with these rows.
    """

    loaders: frozenset[Instance]
    code: str
    rows: str = ""
    names: frozenset[str] = frozenset()


@dataclass(eq=False, repr=False, slots=True)
class Choices:
    """What a conversion has decided so far, for the next run to take into account."""

    reduced: set[cst.CSTNode] = field(default_factory=set)
    # Where rows cannot be gathered, as what all ranks hold may come too: before, they can.
    apart: set[cst.CSTNode] = field(default_factory=set)
    replicated: set[cst.CSTNode] = field(default_factory=set)  # loaders' places that are not split
    beside: set[cst.CSTNode] = field(default_factory=set)  # that are taken beside other batches
    # Pairs of loaders' places whose batches are trained on together, and may differ in size.
    unequal: set[frozenset[tuple[cst.CSTNode | int, ...]]] = field(default_factory=set)
    # Statements before which the batch of one of several loaders is made the current one again.
    switches: dict[cst.CSTNode, BatchSwitch] = field(default_factory=dict)
    # Slices that cut a batch down to its first rows, with code for its loader.
    cuts: dict[cst.CSTNode, str] = field(default_factory=dict)
    # Reductions that use another batch than the rest of their line, with code for its loader.
    named: dict[cst.CSTNode, str] = field(default_factory=dict)
    trained: set[cst.CSTNode] = field(default_factory=set)  # loaders' places that feed a backward
    # Calls that return the whole batch's rows, with the loaders of that batch.
    split: dict[cst.CSTNode, frozenset[Instance]] = field(default_factory=dict)
    # Statements in which a function gets replicated values, and a batch elsewhere, with the call.
    replicated_statements: dict[cst.CSTNode, Site] = field(default_factory=dict)
    by_hand: bool = False  # whether to look for batches that no loader makes
    # The places where batches are made by hand, and the batch dimension there.
    batches: dict[cst.CSTNode, int] = field(default_factory=dict)
    flat: set[cst.CSTNode] = field(default_factory=set)  # of those, with several rows a sample
    # Whether the script itself says what is split: it uses ddpify's runtime.
    stated: bool = False
    split_all: bool = False  # whether batches of evaluations are split too
    # Whether those are that functions make which make what is trained on; the places of such.
    split_alike: bool = False
    alike: set[cst.CSTNode] = field(default_factory=set)
    # Tests for several GPUs, with whether they hold where there is one.
    one_device: dict[cst.CSTNode, bool] = field(default_factory=dict)
    left_out: set[cst.CSTNode] = field(default_factory=set)  # functions that only those lead to
    # Whether the script is to see no process group, as in one process: it starts none itself.
    alone: bool = False

    def copied(self) -> Choices:
        """The same decisions, which stay as they are when more are made."""
        return Choices(**{one.name: copy(getattr(self, one.name)) for one in fields(self)})

    def are_without(self, dropped: AbstractSet[cst.CSTNode], before: Choices) -> bool:
        """Whether these are the decisions of ``before`` but for the reductions at some places."""
        others = (one.name for one in fields(self) if one.name != "reduced")
        same = all(getattr(self, name) == getattr(before, name) for name in others)
        return same and self.reduced == before.reduced - dropped
