"""Lists of a collate function that have more than something of each sample: ``[*labels, 9]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.values import Const, Data, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def are_in(run: RunState, held: Value) -> bool:
    """Whether what a collate function makes a tensor of has items of no sample, once for all.

    In the round of one sample it is that sample's.
    """
    lists = [one for one in held.of(Instance) if one.type == "list"]
    if not run.collating or run.rounds or not lists:
        return False
    more = any(_has_constants(one) or one in run.longer for one in lists)
    return more and any(map(_has_samples, lists))


def added(run: RunState, held: Instance) -> None:
    """A list gets one more item, which is no sample's unless that is in its round."""
    if run.collating and not run.rounds and _has_samples(held):
        run.longer.add(held)


def _has_samples(made: Instance) -> bool:
    return any(isinstance(one, Data) for one in made.elements.atoms)


def _has_constants(made: Instance) -> bool:
    """Whether some of its items surely are what is the same for all samples.

    What a condition gives may be one for each sample: ``[x if x > 0 else -1 for x in labels]``.
    """
    shown = made.site.elements if isinstance(made.site, cst.List) else ()
    starred = any(isinstance(one, cst.StarredElement) for one in shown)
    if starred and any(isinstance(one, cst.Element) for one in shown):
        return True
    named = (one for key, one in made.attributes.items() if key != "*")
    return any(isinstance(one, Const) for item in named for one in item.atoms)
