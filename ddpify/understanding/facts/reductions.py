"""Reductions over the ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts.places import Calls, Site
from ddpify.understanding.values import Data


@dataclass(repr=False, slots=True)
class Reductions:
    """What the reductions got that are there, or were decided upon."""

    reduced: dict[cst.CSTNode, set[Data]] = field(default_factory=dict)  # what reductions got
    reduced_replicated: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of a global value
    # The calls that lead to a reduction with this rank's part, and with a global value.
    reduced_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    replicated_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    # Reductions that get rows of all ranks on one way through the script, a rank's on another.
    half_gathered: set[cst.CSTNode] = field(default_factory=set)
    # Tensors that are rows of a rank, or in another case what all ranks hold.
    beside_whole: set[cst.CSTNode] = field(default_factory=set)
    half_reduced: set[cst.CSTNode] = field(default_factory=set)
    used_on_rows: set[cst.CSTNode] = field(default_factory=set)  # reductions, in a training step
    # Those that gave something else than they got, or were asked for, in any pass or trial.
    effective: set[cst.CSTNode] = field(default_factory=set)
