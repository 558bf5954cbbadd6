"""The forwards of models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts.places import Site
from ddpify.understanding.values import Instance


@record
class SampleHook:
    """A hook that gets the rows of all ranks along ``dim``, or their ``gradient``.

    ``rowless``: it puts something without a row for each sample in their place.
    """

    site: Site
    gradient: bool
    dim: int = 0
    rowless: bool = False


@record
class ReplicatedCall:
    """A call of a model on replicated values, while there is a current batch."""

    site: Site
    models: frozenset[Instance]
    gathered: bool  # rows of all ranks, to be trained on
    in_loop: bool = True  # over a loader's batches, of which one is current
    normalises: bool = False  # by the statistics of what it gets, perhaps
    single: bool = False  # perhaps one sample, whose first dimension has no rows


@dataclass(repr=False, slots=True)
class Forwards:
    """What goes on in models' forwards, and which calls of them get what."""

    # Calls in a model's forward that mix the samples of its batch, as ``x.mean(dim=0)`` does.
    statistics: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # In models' forwards: rows that were gathered there, and layers that get rows of all ranks.
    gathered_in_forward: dict[cst.CSTNode, Site] = field(default_factory=dict)
    on_all_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)
    made_in_forward: dict[cst.CSTNode, Site] = field(default_factory=dict)  # with random weights
    # Functions that get what goes through a layer, or the gradients of samples.
    sample_hooks: dict[cst.CSTNode, SampleHook] = field(default_factory=dict)
    replicated_calls: dict[cst.CSTNode, ReplicatedCall] = field(default_factory=dict)
    sharded_calls: set[cst.CSTNode] = field(default_factory=set)
    unread: dict[str, Site] = field(default_factory=dict)  # what has no code to read, by its name
    # Calls of models with weights: on a rank's own rows, and in loops on what all ranks hold.
    shared_work: set[cst.CSTNode] = field(default_factory=set)
    whole_work: dict[cst.CSTNode, Site] = field(default_factory=dict)
    whole_training: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of it, with gradients
    row_calls: dict[Instance, bool] = field(default_factory=dict)  # from rows, whether to rows
    # The same, tried, of models that the script calls on the rows of all ranks alone.
    tried_on_rows: dict[Instance, bool] = field(default_factory=dict)
    trained_by_rows: set[Instance] = field(default_factory=set)  # which perhaps train on a rank's
    # Functions with a backward of their own: which arguments of their forwards are rows.
    applied: dict[cst.CSTNode, set[int]] = field(default_factory=dict)
    applied_to_all: set[cst.CSTNode] = field(default_factory=set)  # of those, to all ranks' rows

    def treat_rows_alone(self, models: Iterable[Instance]) -> bool:
        """Whether all of these surely make a row of each row."""
        return all(self.row_calls.get(one, self.tried_on_rows.get(one)) for one in models)
