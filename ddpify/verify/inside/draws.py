"""Random tensors that a training loop draws come from their place in the loop.

Where the ranks draw for their own samples alone, all rows of a draw are equal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.place import PLACE, kept_states, seed_all
from ddpify.verify.inside.randomness import state


def _fill(
    like: torch.Tensor,
    draw: Callable[[torch.Tensor, torch.Generator], Any],
    before: int,
) -> Any:
    """Draw ``like`` in place from its place in the loop: one row for all, or each its own.

    ``before``: the state of the generator that the script draws it from.
    """
    generator = torch.Generator().manual_seed(PLACE.seed(like.shape, before))
    shape = like.shape[1:] if PLACE.equal_rows else like.shape
    drawn = torch.empty(shape, dtype=like.dtype, device="cpu")
    with PLACE.drawing(), torch.no_grad():
        draw(drawn, generator)
        like.copy_(drawn.expand(like.shape))
    return like


def install() -> None:
    """Replace torch's functions and methods that draw."""
    methods = [
        "normal_",
        "uniform_",
        "exponential_",
        "bernoulli_",
        "cauchy_",
        "log_normal_",
        "geometric_",
    ]
    for name in methods:
        _replace_method(name)
    for name, method in {"randn": "normal_", "rand": "uniform_"}.items():
        _replace_factory(name, method)
        _replace_factory(f"{name}_like", method)
    _replace_factory("randint", None)
    _replace_factory("randint_like", None)
    for name in ("normal", "bernoulli", "poisson"):
        _replace_sampled(name)
    _replace_multinomial()


def _replace_method(name: str) -> None:
    real = getattr(torch.Tensor, name)

    @functools.wraps(real)
    def draw(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        parameter = isinstance(self, torch.nn.Parameter)
        tensors = any(isinstance(value, torch.Tensor) for value in args)
        if parameter or tensors or not self.dim() or not PLACE.replaced():
            return real(self, *args, **kwargs)
        given = kwargs.pop("generator", None)
        before = state(self.device, given)
        return _fill(self, lambda empty, made: real(empty, *args, generator=made, **kwargs), before)

    setattr(torch.Tensor, name, draw)


def _replace_factory(name: str, method: str | None) -> None:
    """``torch.name``: made by the real function, and then drawn again from its place."""
    real = getattr(torch, name)
    fill = getattr(torch.Tensor, method) if method else None

    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if not PLACE.replaced():
            return real(*args, **kwargs)
        given = kwargs.pop("generator", None)
        with kept_states():
            made = real(*args, **kwargs)
        before = state(made.device, given)
        if not made.dim():
            return _seeded(real, args, kwargs, PLACE.seed((), before))
        with torch.no_grad():
            if fill is not None:
                _fill(made, lambda empty, generator: fill(empty, generator=generator), before)
            else:
                _fill_integers(made, real, args, kwargs, before)
        return made

    setattr(torch, name, draw)


def _fill_integers(made: torch.Tensor, real: Any, args: Any, kwargs: Any, before: int) -> None:
    """Draw ``made`` again from a seeded state: its first row for all, or each its own."""
    again = _seeded(real, args, kwargs, PLACE.seed(made.shape, before))
    made.copy_(again[:1].expand(made.shape) if PLACE.equal_rows else again)


def _replace_sampled(name: str) -> None:
    """``torch.name(distribution, ...)``; equal rows come from one stream of draws, each with its
    own parameters."""
    real = getattr(torch, name)

    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if not PLACE.replaced():
            return real(*args, **kwargs)
        generator = kwargs.pop("generator", None)
        given = [value for value in args if isinstance(value, torch.Tensor) and value.dim()]
        if not given:
            before = state(torch.device("cpu"), generator)
            with kept_states():
                made = real(*args, **kwargs)
            return _from_numbers(made, real, args, kwargs, before)
        seed = PLACE.seed(given[0].shape, state(given[0].device, generator))
        if not PLACE.equal_rows:
            return _seeded(real, args, kwargs, seed)
        rows = range(len(given[0]))
        return torch.stack([_seeded(real, _at(args, row), kwargs, seed) for row in rows])

    setattr(torch, name, draw)


def _from_numbers(
    made: torch.Tensor, real: Any, args: Any, kwargs: Any, before: int
) -> torch.Tensor:
    """``torch.normal(mean, std, size)`` with numbers for mean and std; scalars of the others."""
    if not made.dim():
        return _seeded(real, args, kwargs, PLACE.seed((), before))
    mean, std = (*args, kwargs.get("mean"), kwargs.get("std"))[:2]
    normal = torch.Tensor.normal_
    _fill(made, lambda empty, generator: normal(empty, mean, std, generator=generator), before)
    return made


def _at(args: Any, row: int) -> list[Any]:
    """``args`` with each tensor replaced by its row ``row``."""
    return [
        value[row] if isinstance(value, torch.Tensor) and value.dim() else value for value in args
    ]


def _seeded(real: Any, args: Any, kwargs: Any, seed: int) -> torch.Tensor:
    with kept_states():
        seed_all(seed)
        made: torch.Tensor = real(*args, **kwargs)
    return made


def _replace_multinomial() -> None:
    real = torch.multinomial

    def draw(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if input.dim() != 2 or not PLACE.replaced():
            return real(input, *args, **kwargs)
        seed = PLACE.seed(input.shape, state(input.device, kwargs.pop("generator", None)))
        if not PLACE.equal_rows:
            return _seeded(real, (input, *args), kwargs, seed)
        return torch.stack([_seeded(real, (row, *args), kwargs, seed) for row in input])

    replace(torch, "multinomial", draw)
    replace(torch.Tensor, "multinomial", draw)
