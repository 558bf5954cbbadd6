"""Where the training draws random numbers for a rank's own samples, and from which state.

Ranks that draw from the same state drop, mask and augment their samples alike. Two places are
watched: functions that draw for a tensor which was computed from a batch, and samples' own
augmentation, by the states in which the first batch of a pass is fetched: a loader may fetch in
random streams of its rank's own.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from ddpify.verify.inside.loaders import Loaders
from ddpify.verify.inside.origins import Provenance
from ddpify.verify.inside.place import PLACE
from ddpify.verify.inside.randomness import state
from ddpify.verify.inside.samples import WORKERS

DRAWING = frozenset({
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
    "dropout_", "rand_like", "randn_like", "randint_like", "bernoulli", "bernoulli_", "multinomial",
    "normal_", "uniform_", "random_", "exponential_", "scaled_dot_product_attention",
    "gumbel_softmax", "rrelu",
})  # fmt: skip
"""Names of torch's functions that draw for the tensor that they are given."""
MAX_DRAWS = 2_000


class EqualChance:
    """Tells of the draws of one rank.

    Args:
        emit: Takes each event: a kind and its values.
        provenance: Tells what a tensor was computed from.
    """

    def __init__(self, emit: Callable[..., None], provenance: Provenance) -> None:
        self._emit, self._provenance = emit, provenance
        self._count = 0
        self._told: set[tuple[int, int]] = set()
        self._workers: dict[tuple[int, int], bool] = {}

    def watch(self, loaders: Loaders) -> None:
        """Be told of the passes over loaders, and of each batch."""
        PLACE.drawn = set()
        loaders.begun, loaders.ended = self._begun, self._ended

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call ``func``, and tell if it draws for what was computed from a batch."""
        if self._count >= MAX_DRAWS or getattr(func, "__name__", "") not in DRAWING:
            return func(*args, **kwargs)
        tensor = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if tensor is None or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        given = kwargs.get("generator")
        before = state(tensor.device, given)
        result = func(*args, **kwargs)
        origins = self._provenance.of(tensor)
        if origins and state(tensor.device, given) != before:
            self._count += 1
            at, key = self._provenance.place("draw")
            if at:
                self._emit("draw", at=at, key=key, state=before, origins=list(origins))
        return result

    def _begun(self, loader: Any, number: int, turn: int) -> None:
        """A pass begins."""
        self._workers[number, turn] = loader.__dict__.get(WORKERS, False)

    def _ended(self, number: int, turn: int) -> None:
        """A batch of a pass has been fetched; what its samples drew moves the generators on."""
        before, PLACE.before = PLACE.before, None
        if before is not None and (number, turn) in self._workers:
            workers = self._workers.pop((number, turn))
            self._emit("begin", loader=number, turn=turn, rng=before, workers=workers)
        drawn, PLACE.drawn = sorted(PLACE.drawn or ()), set()
        for name in drawn:
            _advance(name)
        if drawn and (number, turn) not in self._told:
            self._told.add((number, turn))
            self._emit("augments", loader=number, turn=turn, generators=drawn)


def _advance(name: str) -> None:
    if name == "torch":
        torch.rand(())
    elif name == "python":
        random.random()
    else:
        sys.modules["numpy"].random.random()
