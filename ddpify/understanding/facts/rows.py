"""The rows of a batch, and their number."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts.places import Site
from ddpify.understanding.values import Instance


@record
class Regrouped:
    """An expression whose rows depend on others of the batch, those of ``rows`` and ``others``.

    ``own_backward``: it has a backward of the script's own. ``in_place``: it is a method that
    changes ``rows``.
    """

    site: Site
    rows: cst.BaseExpression
    stacked: bool = False  # of several tensors, under each other
    dims: frozenset[int] = frozenset({0})  # those along which the rows lie, call by call
    others: tuple[cst.BaseExpression, ...] = ()
    own_backward: bool = False
    in_place: bool = False


@record
class States:
    """States, or lengths, of the whole batch that a layer gets beside this rank's rows.

    ``dim`` is the dimension of the rows in them; ``rows`` is code for how many the layer's input
    has, empty where the input has no name.
    """

    site: Site
    dim: int
    rows: str


@dataclass(repr=False, slots=True)
class Rows:
    """Where rows of the batch meet others: each other, or those that every rank holds."""

    regrouped: dict[cst.CSTNode, Regrouped] = field(default_factory=dict)
    taken_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)  # x[nearest]
    # Of rows that are picked from an expression by position: what the positions were counted by.
    positions: dict[cst.CSTNode, set[cst.BaseExpression]] = field(default_factory=dict)
    in_turn: dict[cst.CSTNode, bool] = field(default_factory=dict)  # that of each round's sample
    # Layers that go along the samples of the batch, as if those were the steps of a sequence.
    along_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)
    states: dict[cst.CSTNode, States] = field(default_factory=dict)  # of recurrent layers
    lengths: dict[cst.CSTNode, States] = field(default_factory=dict)  # of all sequences of a batch
    padded: dict[cst.CSTNode, Site] = field(default_factory=dict)  # to a rank's longest sequence
    # What unseen code makes of rows, where a loop goes through it as through several tensors.
    taken_apart: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # Beside a rank's rows, of as many.
    replicated_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # Where tensors of all ranks' rows were made into which something of samples is written.
    filled_with_rows: set[cst.BaseExpression] = field(default_factory=set)


@dataclass(repr=False, slots=True)
class Sizes:
    """Where code names a number of rows, or a dimension that may be theirs."""

    named_sizes: dict[cst.CSTNode, Site] = field(default_factory=dict)  # x.view(batch_size, ...)
    # Numbers of rows that something replicated is divided by, with the loaders of the rows.
    divisors: dict[cst.BaseExpression, set[Instance]] = field(default_factory=dict)
    shape_uses: set[cst.CSTNode] = field(default_factory=set)
    # Of rows, with no dimension named, and the dimension of the rows.
    squeezes: dict[cst.CSTNode, tuple[Site, int]] = field(default_factory=dict)
    # Functions along a dimension that is counted from the end of a tensor of unknown dimensions.
    unsure_dimensions: dict[cst.CSTNode, Site] = field(default_factory=dict)
