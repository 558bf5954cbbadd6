"""Batches that no loader gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts.places import Place, Site
from ddpify.understanding.values import Instance, ReplicatedTensor


@record
class Entry:
    """A batch that enters a model, in ``training`` or not: all that may be known of its rows.

    It may be ``tested`` though gradients are on: the model is in evaluation mode.
    """

    site: Site
    training: bool
    tested: bool
    held: tuple[ReplicatedTensor, ...]
    model: Instance


@dataclass(repr=False, slots=True)
class HandmadeBatches:
    """Batches that the script makes by hand: what enters models, and what is known of the rows."""

    # Batches that the script makes by hand: what enters models, and what is known of the rows.
    # By call, position among its arguments, and whether gradients are taken there.
    entries: dict[tuple[cst.CSTNode, int, bool], Entry] = field(default_factory=dict)
    entered_together: set[frozenset[cst.CSTNode]] = field(default_factory=set)  # by their places
    refuted: set[Place] = field(default_factory=set)
    without_rows: set[cst.CSTNode] = field(default_factory=set)  # places of indices and masks
    confirmed: set[Place] = field(default_factory=set)
    # What meets a split batch, and must be split too, with the sources of those batches.
    wanted: dict[Place, set[Instance]] = field(default_factory=dict)
    flat: set[cst.CSTNode] = field(default_factory=set)  # of those, the flattened ones
    # Of the places that were chosen to split batches at: where rows came split or replicated.
    split_before: dict[cst.CSTNode, Site] = field(default_factory=dict)
    split_here: set[cst.CSTNode] = field(default_factory=set)
    # A fixed number of rows out of batches that are split: they are no batch.
    cut: set[cst.CSTNode] = field(default_factory=set)
    # Batches made by hand that enter a model while a loader's are in use.
    beside_loaders: dict[cst.CSTNode, Site] = field(default_factory=dict)
    unmatched: dict[cst.CSTNode, Site] = field(default_factory=dict)  # does so in no known way
