"""Gradients."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts.places import Site
from ddpify.understanding.values import Instance


@dataclass(repr=False, slots=True)
class Gradients:
    """Who takes, changes or scales gradients."""

    stepped: set[Instance] = field(default_factory=set)  # models whose gradients the script uses
    taken_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of models' parameters
    averaged_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of those
    row_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # x.grad of rows
    loose_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of no model's tensors
    # Of what all ranks hold alike, such as points beside the batch.
    replicated_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)
    scaled_losses: dict[cst.CSTNode, Site] = field(default_factory=dict)  # in autograd.grad()
    scaled_without_graph: set[cst.CSTNode] = field(default_factory=set)  # of those, under no_grad()
    reached_backwards: set[cst.CSTNode] = field(default_factory=set)  # of those, by some call
    gradient_hooks: dict[cst.CSTNode, Site] = field(default_factory=dict)  # on parameters
    # Functions that get a parameter when its gradient has been added to those before.
    accumulation_hooks: dict[cst.CSTNode, Site] = field(default_factory=dict)
