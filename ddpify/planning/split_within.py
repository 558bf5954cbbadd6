"""Trainings of which only a part inside of the models is divided among the ranks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan, Reduction
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.values import Class


def undivided(plan: Plan) -> Iterator[Refusal]:
    """Batches that are split inside of a model alone, and gathered again before its loss.

    The layers before and behind, and the loss, would be the whole batch's on every rank.
    """
    split = [plan.site(node) for node in _split(plan)]
    classes = _classes(plan) if split else set()
    read = [(plan.site(n), one) for n, one in plan.reductions.items() if _is_read(one)]
    inside = [site for site, one in read if one.how == "gather" and _is_inside(site, classes)]
    if inside and len(inside) == len(read) and all(_is_inside(one, classes) for one in split):
        first = min(inside, key=lambda site: (site.module.path.name, site.line))
        yield Refusal(
            first.module,
            first.node,
            "no batch is split before it enters the model, and the samples are put together again"
            " here: every rank would do nearly all of the work",
            "make the batch's tensors in the loop, with the samples in their first dimension, and"
            " compute the loss from per-sample values",
        )


def _split(plan: Plan) -> list[cst.CSTNode]:
    """Where batches that are trained on are split."""
    choices = plan.choices
    if not choices.by_hand or choices.trained - choices.batches.keys() - choices.replicated:
        return []
    return [n for n in choices.batches if n in choices.trained and n not in choices.replicated]


def _is_read(made: Reduction) -> bool:
    """Whether this makes global what ranks hold in part of a training step."""
    return made.trained_on or made.how == "gather"


def _classes(plan: Plan) -> set[cst.ClassDef]:
    """The classes of the project whose objects are models."""
    return {one.type.node for one in plan.facts.models if isinstance(one.type, Class)}


def _is_inside(site: Site, classes: set[cst.ClassDef]) -> bool:
    return any(above in classes for above in site.module.structure.up(site.node))
