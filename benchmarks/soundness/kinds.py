"""The kinds of scripts: where the operator or idiom stands that a script is about."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.soundness import in_batches, in_loops, in_models
from benchmarks.soundness.drafting import Draft

KINDS: dict[str, tuple[Callable[[random.Random], Draft], int]] = {
    "loop": (in_loops.loop, 6),
    "several": (in_loops.several, 2),
    "positions": (in_loops.places, 2),
    "rounds": (in_loops.by_rounds, 2),
    "rounds-forward": (in_models.by_rounds, 1),
    "dimensions": (in_loops.batch_dimension, 2),
    "forward": (in_models.forward, 6),
    "criterion": (in_loops.criterion, 3),
    "loss": (in_loops.loss, 2),
    "layer": (in_models.layer, 3),
    "collate": (in_batches.collate, 3),
    "helper": (in_loops.helper, 2),
    "class": (in_loops.trainer, 2),
    "container": (in_loops.container, 2),
    "evaluation": (in_loops.evaluation, 3),
    "hook": (in_models.hook, 2),
    "function": (in_models.function, 1),
    "three": (in_loops.three_dimensions, 2),
    "gradient": (in_loops.gradient, 2),
    "accumulation": (in_loops.accumulation, 1),
    "object": (in_batches.own_object, 1),
    "dataset": (in_batches.dataset, 1),
    "by-hand": (in_batches.by_hand, 2),
}
"""How each kind is drafted, and how often against the others."""
