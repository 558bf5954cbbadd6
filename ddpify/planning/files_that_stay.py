"""What would have to be changed in a file that stays as it is."""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Facts

_WHOLE_PROJECT = "convert the whole project, so that this file may be changed"


def states(facts: Facts) -> Iterator[Refusal]:
    """States for all rows of a batch that a layer gets beside a rank's rows."""
    for one in facts.rows.states.values():
        if not one.site.module.editable:
            yield Refusal(
                one.site.module,
                one.site.node,
                "this layer gets states for all rows of the batch beside a rank's rows",
                f"{_WHOLE_PROJECT}; or make the states for as many rows as the layer's input has",
            )


def lengths(facts: Facts) -> Iterator[Refusal]:
    """Lengths of all sequences of a batch beside a rank's, also where those have no name."""
    for one in facts.rows.lengths.values():
        if not one.rows or not one.site.module.editable:
            named = "give the sequences a name before they are packed"
            yield Refusal(
                one.site.module,
                one.site.node,
                "these are the lengths of all sequences of the batch beside a rank's sequences",
                named if one.site.module.editable else _WHOLE_PROJECT,
            )


def gradient_hooks(facts: Facts) -> Iterator[Refusal]:
    """Hooks that get a parameter's gradient before it is averaged."""
    for site in facts.gradients.gradient_hooks.values():
        if not site.module.editable:
            yield Refusal(
                site.module,
                site.node,
                "this hook gets a parameter's gradient before it is averaged over the ranks",
                _WHOLE_PROJECT,
            )
