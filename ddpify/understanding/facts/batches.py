"""Loaders, and their batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts.places import Calls, Site
from ddpify.understanding.values import Instance

# The dimension of a batch's rows: one for all of it, or one for each part of a tuple or of a
# dictionary, which may be such itself. None is for a part that has no rows.
OWN = "own"
"""For a part of a batch that has any number of rows for a sample."""
BatchDimensions: TypeAlias = "tuple[Dimensions, ...] | dict[str, Dimensions]"
Dimensions: TypeAlias = "int | str | BatchDimensions | None"


@record
class LateUse:
    """A use of a batch of ``loaders`` while one of the loaders ``current_loaders`` has come after
    it.
    """

    site: Site
    loaders: frozenset[Instance]
    current_loaders: frozenset[Instance]
    calls: Calls = ()


@dataclass(repr=False, slots=True)
class Loading:
    """How loaders put samples together, who goes through them, and who else gets them."""

    # Loaders whose collate function is understood: the dimension of the rows, of all or each part.
    layouts: dict[Instance, BatchDimensions] = field(default_factory=dict)
    numbered: set[Instance] = field(default_factory=set)
    parted: set[Instance] = field(default_factory=set)  # it gives a tuple or a dictionary
    # Loaders whose collate function lets the samples of a batch depend on each other, and where.
    mixed: dict[Instance, Site] = field(default_factory=dict)
    # Those that get something of all samples, such as the longest one's length, and where.
    joint: dict[Instance, Site] = field(default_factory=dict)
    # Those of which unread code puts the samples together: their rows are taken to come first.
    unread: set[Instance] = field(default_factory=set)
    iterated: set[Instance] = field(default_factory=set)
    # Loaders that unseen code gets.
    escaping_loaders: dict[cst.BaseExpression, Site] = field(default_factory=dict)
    # Calls of unseen code that take the rows of all ranks; those that give a batch back.
    unseen_calls: set[cst.CSTNode] = field(default_factory=set)
    given_back: dict[cst.CSTNode, frozenset[Instance]] = field(default_factory=dict)
    # The calls that lead to rows of all ranks which meet a rank's own there.
    given_back_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    # What is split there, and comes there by another way as something that has no rows of ranks.
    split_replicated: dict[cst.CSTNode, Site] = field(default_factory=dict)


@dataclass(repr=False, slots=True)
class Batches:
    """What happens to the batches of one loader or of several, besides their use."""

    # Loaders whose batches are used together, with the place; of those, the ones in step.
    used_together: dict[frozenset[Instance], Site] = field(default_factory=dict)
    in_step: set[frozenset[Instance]] = field(default_factory=set)
    # Loaders whose rows are combined one by one, which works with as many of each alone.
    combined: set[frozenset[Instance]] = field(default_factory=set)
    beside: set[Instance] = field(default_factory=set)  # taken while others' are in use
    joined: set[Instance] = field(default_factory=set)  # to rows of others, of another number
    two_sizes: dict[cst.CSTNode, LateUse] = field(default_factory=dict)  # made of two batches
    late_uses: dict[cst.CSTNode, LateUse] = field(default_factory=dict)
    past_batches: dict[cst.CSTNode, LateUse] = field(default_factory=dict)  # the next one came
    switched: set[cst.CSTNode] = field(default_factory=set)  # of the chosen switches, those needed
    cuttable: dict[cst.CSTNode, Site] = field(default_factory=dict)  # by what is sliced: rows[:n]
    cycled: dict[cst.CSTNode, Site] = field(default_factory=dict)  # itertools.cycle(loader)
    # Loops over what a loader's batch holds, of which each round is a step of its own.
    part_steps: dict[cst.CSTNode, Site] = field(default_factory=dict)
