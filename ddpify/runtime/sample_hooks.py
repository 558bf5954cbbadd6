"""Hooks on layers, and on gradients of samples, that are called with the whole global batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ddpify.runtime.process import world_size
from ddpify.runtime.reduce import gather, split
from ddpify.runtime.rng import shared_torch_stream
from ddpify.runtime.share import current_share

SampleHook = Callable[..., Any]


def batch_hook(hook: SampleHook, *, dim: int = 0) -> SampleHook:
    """A hook for ``register_forward_hook`` that is called with the rows of the global batch.

    hook: called on every rank with the rows of all ranks, along ``dim``, in place of a rank's own
    in its tensors and tuples of tensors. Of what it returns, each rank takes its own rows; so it
    does where the hook returns nothing and changes the layer's output in place. A hook that
    changes what the layer gets, or a gradient, raises RuntimeError: the caller holds its own rows.
    Differentiable; its calls are collectives. At one process this returns ``hook``.
    """
    return _on_all_rows(hook, dim, 1)


def batch_gradient_hook(hook: SampleHook, *, dim: int = 0) -> SampleHook:
    """The same for hooks that get gradients of samples: of tensors, and of layers.

    They are called with the gradients of one process: a rank's own are as many times larger as
    there are ranks, since those of parameters are averaged.
    """
    return _on_all_rows(hook, dim, world_size())


def _on_all_rows(hook: SampleHook, dim: int, scale: int) -> SampleHook:
    if world_size() == 1:
        return hook

    @functools.wraps(hook)
    def called(*given: Any, **named: Any) -> Any:
        share = current_share()
        if share is None:
            return hook(*given, **named)
        whole = _each(
            given, lambda x: gather(x, dim=dim) / scale if scale > 1 else gather(x, dim=dim)
        )
        before = _versions(whole)
        with shared_torch_stream():  # a draw for all rows is the same on all ranks
            made = hook(*whole, **named)
        if _versions(whole) != before:
            made = _changed(whole, before, made, output=scale == 1)
        factor = 0 if share.ghost else scale  # a ghost's gradient counts for nothing
        return _each(made, lambda x: split(x, dim=dim) * factor if scale > 1 else split(x, dim=dim))

    return called


def _changed(whole: tuple[Any, ...], before: list[int], made: Any, *, output: bool) -> Any:
    """What a hook returns that has changed tensors in place: the output of its layer, if that."""
    last = len(whole) - 1
    others = _versions(whole[:last])
    if not output or last != 2 or others != before[: len(others)]:
        raise RuntimeError(
            "this hook changes tensors in place that its caller holds: let it return new ones"
        )
    return whole[last] if made is None else made


def _versions(held: Any) -> list[int]:
    """How often each of the tensors has been changed in place."""
    found: list[int] = []
    _each(held, lambda x: found.append(x._version) or x)  # type: ignore[func-returns-value]
    return found


def _each(held: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same, with its tensors changed, also in tuples, lists and dicts."""
    if isinstance(held, tuple) and hasattr(held, "_fields"):
        return type(held)(*(_each(part, change) for part in held))
    if isinstance(held, (tuple, list)):
        return type(held)(_each(part, change) for part in held)
    if isinstance(held, dict):
        return type(held)((name, _each(part, change)) for name, part in held.items())
    if isinstance(held, torch.nn.Parameter) or not isinstance(held, torch.Tensor):
        return held
    return change(held) if held.dim() else held
