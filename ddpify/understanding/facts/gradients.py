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
    # Of other tensors that all ranks hold, of which each has the part of its own samples.
    whole_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)
    of_rows: set[cst.CSTNode] = field(default_factory=set)  # x.grad of rows, whatever reads it
    # Where rows got the name under which an optimizer trains them, with the calls that tell it.
    trained_rows: dict[cst.BaseExpression, Site] = field(default_factory=dict)
    # Calls of autograd.grad(), with where the rows got their names of which it gives gradients.
    taken_of_rows: dict[cst.CSTNode, tuple[Site, frozenset[cst.BaseExpression]]] = field(
        default_factory=dict
    )
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

    @property
    def of_either(self) -> list[Site]:
        """Those of rows in one call, and of what all ranks hold in another."""
        return [site for node, site in self.whole_gradients.items() if node in self.of_rows]

    @property
    def taken_of_trained(self) -> list[Site]:
        """Those that ``autograd.grad`` takes of rows that an optimizer may train as well."""
        trained = self.trained_rows.keys()
        return [
            site
            for site, names in self.taken_of_rows.values()
            if trained and (not names or trained & names)
        ]
