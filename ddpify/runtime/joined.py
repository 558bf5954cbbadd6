"""Batches of a script taken by each rank whole: as many of them make one global batch as ranks."""

import functools
import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

from ddpify.runtime.indices import compact
from ddpify.runtime.process import is_main, world_size

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)

LEARNING_RATE_RULES = ("linear", "sqrt")


class JoinedBatches:
    """A batch sampler that joins ``size`` consecutive batches of another into one.

    What is left at the end makes a smaller one or, with ``drop_last``, none.
    """

    def __init__(self, batches: Any, size: int, *, drop_last: bool) -> None:
        self.batches = batches
        self.sampler = getattr(batches, "sampler", None)
        self.generator = getattr(batches, "generator", None)
        self.size = size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        rest = iter(compact(self.batches))
        while group := list(itertools.islice(rest, self.size)):
            if len(group) < self.size and self.drop_last:
                return
            yield [index for batch in group for index in batch[:]]

    def __len__(self) -> int:
        return self.joined(len(self.batches))

    def joined(self, batches: int) -> int:
        """How many batches so many of the other make."""
        whole, rest = divmod(batches, self.size)
        return whole + (1 if rest and not self.drop_last else 0)


def scale_lr(optimizer: AnyOptimizer, rule: str) -> AnyOptimizer:
    """The same optimizer, whose steps take learning rates for a global batch N times larger.

    They grow by N with the ``linear`` rule (Goyal et al., arXiv:1706.02677), by its square root
    with ``sqrt`` (Krizhevsky, arXiv:1404.5997). The factor is applied within ``step()`` alone:
    what the script sets, schedules, prints and saves are its own learning rates. In a plain
    ``python`` run nothing changes.

    Raises ValueError for another rule.
    """
    if rule not in LEARNING_RATE_RULES:
        raise ValueError(f"rule is 'linear' or 'sqrt', not {rule!r}")
    size = world_size()
    if size > 1:
        factor = float(size) if rule == "linear" else math.sqrt(size)
        steps = _ScaledSteps(factor)
        optimizer.register_step_pre_hook(steps.before)
        optimizer.register_step_post_hook(steps.after)
        _report(f"learning rates are multiplied by {factor:.4g} in each step ({rule} rule)")
    return optimizer


class _ScaledSteps:
    """Hooks around an optimizer's step: larger learning rates within it, the script's outside."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.own: list[float | torch.Tensor] = []

    def before(self, optimizer: Optimizer, *_: Any) -> None:
        groups = optimizer.param_groups
        if not self.own:  # else a step failed, and left the larger ones behind
            self.own = [group["lr"] for group in groups]
        for group, own in zip(groups, self.own, strict=True):
            group["lr"] = own * self.factor

    def after(self, optimizer: Optimizer, *_: Any) -> None:
        for group, own in zip(optimizer.param_groups, self.own, strict=True):
            group["lr"] = own
        self.own = []


def report_batch(own: int | None) -> None:
    """Say once how large the global batches are that ranks make of their own."""
    size = world_size()
    if own is not None:
        _report(f"each of {size} ranks takes batches of {own}: the global batch is {own * size}")
    else:
        _report(f"each of {size} ranks takes batches of its own: {size} make a global batch")


@functools.cache
def _report(text: str) -> None:
    if is_main():
        print(f"ddpify: {text}", file=sys.stderr, flush=True)
