"""Gradients that are exchanged in the last of several micro-batches alone.

Gradients of the others stay on each rank and add up there. The mean over the ranks of such sums is
the sum of the means, so that parameters after the step are the same, with fewer collectives.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ddpify.runtime.process import world_size


class Averaging(Protocol):
    """What averages the gradients of some parameters after each backward."""

    in_backward: bool

    def average(self) -> None:
        """Average them now. A collective."""


class Accumulation:
    """Whether a backward exchanges gradients, and who has gradients that were not exchanged."""

    def __init__(self) -> None:
        self.exchanging = True
        self.behind: dict[Averaging, None] = {}  # in an order that is the same on all ranks
        self.sharded: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self.watching = False

    def catch_up(self) -> None:
        """Average what was left behind, but for what the backward in progress averages itself."""
        for one in [one for one in self.behind if not one.in_backward]:
            del self.behind[one]
            one.average()

    def watch(self) -> None:
        """From now on, let no optimizer step by gradients that were not exchanged."""
        if self.watching:
            return
        self.watching = True
        register_optimizer_step_pre_hook(self._before_step)
        if self.sharded:
            _patch_zero_grad(Optimizer, self._clear)
            _patch_zero_grad(nn.Module, self._clear)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.catch_up()
        if self.sharded and not self.exchanging:
            raise RuntimeError(
                "an optimizer steps while gradients of a sharded model are not exchanged: call"
                " sync_gradients(True) before the forward of the last micro-batch"
            )

    def _clear(self) -> None:
        """Forget what FSDP adds up aside from ``.grad``, as ``zero_grad`` does with the rest."""
        for model in self.sharded:
            for part in _sharded_parts(model):
                part.unsharded_accumulated_grad = None  # in the dtype of reductions
                if hasattr(part, "_unsharded_param"):
                    part._unsharded_param.grad = None


accumulation = Accumulation()


def sync_gradients(when: object) -> None:
    """Say whether the backward passes that follow exchange gradients, until the next call.

    when: true for the last micro-batch of a step, and the same on all ranks. Call it before the
    forward. The gradients of the other micro-batches are added up on each rank, and exchanged with
    those of the last one; until then ``.grad`` is that of this rank's samples. No communication.

    A step of an optimizer of ``torch.optim`` always goes by gradients of all ranks: what was not
    exchanged by then is averaged first, apart from the backward. Raises RuntimeError at such a
    step where the model is sharded.
    """
    if world_size() == 1:
        return
    accumulation.exchanging = bool(when)
    for model in accumulation.sharded:
        model.set_requires_gradient_sync(accumulation.exchanging)  # type: ignore[operator]
    if not accumulation.exchanging:
        accumulation.watch()


def _sharded_parts(model: nn.Module) -> Iterator[Any]:
    """FSDP's records of a model's parameters."""
    for unit in model.modules():
        state: Any = getattr(unit, "_get_fsdp_state", lambda: None)()
        one = getattr(state, "_fsdp_param_group", None)  # before torch 2.13
        for group in getattr(state, "_fsdp_param_groups", [one] if one else []):
            yield from group.fsdp_params


def _patch_zero_grad(owner: Any, clear: Callable[[], None]) -> None:
    plain = owner.zero_grad

    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        clear()

    owner.zero_grad = zero_grad
