"""Each row of the table of operators, proved by execution: parts of a batch against the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import (
    COUPLING,
    ELEMENTWISE,
    MIXING,
    OF_MATRICES,
    PER_SAMPLE,
    rule_of,
)

CUTS = ([3, 2], [1, 4], [2, 2, 1], [5, 0])  # uneven parts of five samples, and an empty one
_SPACES = (torch, torch.Tensor, functional, torch.special, np)
_POSITIVE = frozenset(
    "acosh arccosh arcsin arccos asin acos atanh arctanh erfinv logit log log10 log1p log2 ndtri"
    " digamma polygamma psi mvlgamma sqrt rsqrt igamma igammac zeta xlogy xlog1py entr".split()
)
# What an operator takes besides rows, where that is not another tensor of rows.
_MORE: dict[str, tuple[Any, ...]] = {
    "clamp": (0.2, 0.6), "clamp_max": (0.5,), "clamp_min": (0.5,), "clip": (0.2, 0.6),
    "mvlgamma": (1,), "threshold": (0.5, 0.1), "lerp": (0.3,), "polygamma": (1,), "logit": (1e-3,),
}  # fmt: skip
_INTEGERS = frozenset(
    "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor gcd lcm"
    " invert".split()
)


def _function(name: str) -> Callable[..., Any]:
    """The public operator of a name, wherever PyTorch or NumPy has it."""
    found = (getattr(space, name, None) for space in _SPACES)
    function: Callable[..., Any] = next(one for one in found if callable(one))
    return function


def _is_numpys(name: str) -> bool:
    return not any(callable(getattr(space, name, None)) for space in _SPACES[:-1])


def _cut(rows: torch.Tensor, sizes: list[int], dim: int = 0) -> list[torch.Tensor]:
    """Parts of so many rows, or of so many of another dimension."""
    return list(torch.split(rows, sizes, dim))


def _rows(name: str) -> torch.Tensor:
    rows = torch.rand(5, 3, dtype=torch.float64) * 0.8 + 0.1
    if name in ("acosh", "arccosh") or name in ("mvlgamma",):
        rows = rows + 1.0
    if name in _INTEGERS:
        return torch.randint(1, 9, (5, 3))
    return rows if name in _POSITIVE else rows - (0.0 if rows.min() > 0.9 else 0.45)


def _call(name: str, rows: list[torch.Tensor]) -> torch.Tensor:
    """``op`` of as many tensors of rows as it takes."""
    function = _function(name)
    if name in ("where", "masked_fill"):
        return torch.where(rows[0] > 0, rows[0], rows[1])
    if name == "polygamma":
        return torch.polygamma(1, rows[0])
    if name == "ldexp":
        return torch.ldexp(rows[0], torch.ones((), dtype=torch.int64))
    if _is_numpys(name):
        given = [one.detach().numpy() for one in rows]
        for count in (1, 2):
            try:
                return torch.from_numpy(np.asarray(function(*given[:count])))
            except TypeError:
                continue
    for more in (_MORE.get(name, ()), tuple(rows[1:2]), tuple(rows[1:3])):
        try:
            result: torch.Tensor = function(rows[0], *more)
            return result
        except (TypeError, RuntimeError):
            continue
    raise AssertionError(f"{name} takes neither one, two nor three tensors")


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_an_elementwise_operator_gives_parts_of_its_result(name: str, dim: int) -> None:
    torch.manual_seed(0)
    rows = [_rows(name) for _ in range(3)]
    whole = _call(name, rows)
    for cut in CUTS if dim == 0 else ([2, 1], [1, 2], [3, 0]):
        parts = zip(*(_cut(one, cut, dim) for one in rows), strict=True)
        together = torch.cat([_call(name, list(part)) for part in parts], dim)
        torch.testing.assert_close(together, whole, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_gradients_of_an_elementwise_operator_are_of_its_own_rows(name: str) -> None:
    torch.manual_seed(0)
    rows = [_rows(name) for _ in range(3)]
    if rows[0].is_floating_point():
        rows[0].requires_grad_()
    try:
        whole = _call(name, rows)
    except RuntimeError:
        return  # PyTorch has no derivative of it
    if not whole.requires_grad:
        return
    weights = torch.rand_like(whole)
    try:
        (expected,) = torch.autograd.grad((whole * weights).sum(), rows[0])
    except (RuntimeError, NotImplementedError):
        return  # PyTorch has no derivative of it
    first = [one.detach()[:3].requires_grad_() if i == 0 else one[:3] for i, one in enumerate(rows)]
    (found,) = torch.autograd.grad((_call(name, first) * weights[:3]).sum(), first[0])
    torch.testing.assert_close(found, expected[:3], rtol=1e-12, atol=1e-12, equal_nan=True)


def _image() -> torch.Tensor:
    return torch.rand(5, 4, 6, 6, dtype=torch.float64)


def _line() -> torch.Tensor:
    return torch.rand(5, 4, 6, dtype=torch.float64)


def _volume() -> torch.Tensor:
    return torch.rand(5, 4, 4, 4, 4, dtype=torch.float64)


def _weight(*sizes: int) -> torch.Tensor:
    return torch.linspace(-1, 1, int(np.prod(sizes)), dtype=torch.float64).reshape(sizes)


_POOLED = {1: _line, 2: _image, 3: _volume}
Layer = Callable[[torch.Tensor], torch.Tensor]


def _pooling(name: str, *sizes: float) -> Layer:
    function: Any = getattr(functional, name)
    return lambda rows: function(rows, *sizes)


def _unpooling(dimensions: int) -> Layer:
    pool: Any = getattr(functional, f"max_pool{dimensions}d")
    unpool: Any = getattr(functional, f"max_unpool{dimensions}d")
    return lambda rows: unpool(*pool(rows, 2, return_indices=True), 2)


def _convolution(name: str, dimensions: int, *channels: int) -> Layer:
    function: Any = getattr(functional, name)
    return lambda rows: function(rows, _weight(*channels, *[2] * dimensions))


LAYERS: dict[str, tuple[Callable[[], torch.Tensor], Layer]] = {
    **{
        f"{kind}{d}d": (_POOLED[d], _pooling(f"{kind}{d}d", 2))
        for kind in ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool")
        for d in (1, 2, 3)
    },
    **{f"lp_pool{d}d": (_POOLED[d], _pooling(f"lp_pool{d}d", 2.0, 2)) for d in (1, 2)},
    **{f"max_unpool{d}d": (_POOLED[d], _unpooling(d)) for d in (1, 2, 3)},
    **{f"conv{d}d": (_POOLED[d], _convolution(f"conv{d}d", d, 2, 4)) for d in (1, 2, 3)},
    **{
        f"conv_transpose{d}d": (_POOLED[d], _convolution(f"conv_transpose{d}d", d, 4, 2))
        for d in (1, 2, 3)
    },
    "affine_grid": (
        lambda: torch.rand(5, 2, 3, dtype=torch.float64),
        lambda x: functional.affine_grid(x, [len(x), 1, 3, 3], align_corners=False),
    ),
    "baddbmm": (_line, lambda x: torch.baddbmm(x @ x.mT, x, x.mT)),
    "bmm": (_line, lambda x: torch.bmm(x, x.mT)),
    "bilinear": (_line, lambda x: functional.bilinear(x, x, _weight(2, 6, 6))),
    "channel_shuffle": (_image, lambda x: functional.channel_shuffle(x, 2)),
    "constant_pad_nd": (_image, lambda x: torch.constant_pad_nd(x, (1, 1))),
    "embedding": (
        lambda: torch.arange(10).reshape(5, 2),
        lambda x: functional.embedding(x, _weight(10, 3)),
    ),
    "fft2": (_image, lambda x: torch.fft.fft2(x).real),
    "ifft2": (_image, lambda x: torch.fft.ifft2(x).real),
    "fold": (_line, lambda x: functional.fold(x, (4, 3), (2, 2))),
    "unfold": (_image, lambda x: functional.unfold(x, 2)),
    "glu": (_line, functional.glu),
    "grid_sample": (
        _image,
        lambda x: functional.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
    ),
    "group_norm": (_image, lambda x: functional.group_norm(x, 2)),
    "instance_norm": (_image, functional.instance_norm),
    "interpolate": (_image, lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear")),
    "upsample": (_image, lambda x: functional.interpolate(x, scale_factor=2)),
    "layer_norm": (_line, lambda x: functional.layer_norm(x, (6,))),
    "rms_norm": (_line, lambda x: functional.rms_norm(x, (6,))),
    "linear": (_line, lambda x: functional.linear(x, _weight(2, 6))),
    "local_response_norm": (_image, lambda x: functional.local_response_norm(x, 2)),
    "pad": (_image, lambda x: functional.pad(x, (1, 1, 2, 0), mode="reflect")),
    "pixel_shuffle": (_image, lambda x: functional.pixel_shuffle(x, 2)),
    "pixel_unshuffle": (_image, lambda x: functional.pixel_unshuffle(x, 2)),
    "prelu": (_image, lambda x: functional.prelu(x - 0.5, _weight(4))),
    "scaled_dot_product_attention": (
        _image,
        lambda x: functional.scaled_dot_product_attention(x, x, x),
    ),
}


def test_each_operator_by_sample_is_proved() -> None:
    assert set(LAYERS) == PER_SAMPLE


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_an_operator_by_sample_gives_rows_of_its_result(name: str) -> None:
    torch.manual_seed(0)
    make, function = LAYERS[name]
    rows = make()
    whole = function(rows)
    for cut in CUTS[:3]:
        together = torch.cat([function(part) for part in _cut(rows, cut)])
        torch.testing.assert_close(together, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["tril", "triu", "inverse", "matrix_exp", "cholesky", "pinverse"])
def test_operators_of_matrices_take_each_sample_by_itself(name: str) -> None:
    torch.manual_seed(0)
    made = torch.rand(5, 3, 3, dtype=torch.float64)
    rows = made @ made.mT + torch.eye(3, dtype=torch.float64)
    function = _function(name) if name != "cholesky" else torch.linalg.cholesky
    together = torch.cat([function(part) for part in _cut(rows, [3, 2])])
    torch.testing.assert_close(together, function(rows))
    assert rule_of(name) is Rule.OF_MATRICES


@pytest.mark.parametrize(
    "function",
    [
        torch.tril, torch.triu, torch.trace, torch.cov, torch.corrcoef, torch.pinverse,
        torch.linalg.cond, torch.linalg.matrix_norm, lambda x: torch.cdist(x, x),
        lambda x: torch.tensordot(x, x, dims=([1], [1])), lambda x: torch.inner(x, x),
        lambda x: torch.fft.fftn(x).real, lambda x: torch.kron(x, x),
    ],
)  # fmt: skip
def test_what_couples_samples_is_no_result_of_parts(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    rows = torch.rand(4, 4, dtype=torch.float64)
    whole, parts = function(rows), [function(part) for part in _cut(rows, [2, 2])]
    try:
        together = torch.cat(parts)
    except RuntimeError:
        return  # a number for each part
    assert together.shape != whole.shape or not torch.allclose(together, whole)


def test_each_operator_has_one_rule() -> None:
    groups = [ELEMENTWISE, PER_SAMPLE, COUPLING - OF_MATRICES, MIXING - OF_MATRICES]
    for number, group in enumerate(groups):
        for other in groups[number + 1 :]:
            assert not group & other


def test_what_torch_tags_as_pointwise_is_elementwise() -> None:
    tagged = {
        name.removeprefix("special_")
        for name in dir(torch.ops.aten)
        if any(
            torch.Tag.pointwise in getattr(getattr(torch.ops.aten, name), overload).tags
            for overload in getattr(getattr(torch.ops.aten, name), "overloads", list)()
        )
    }
    known = {name for name in tagged if rule_of(name) is not None and not name.endswith("_")}
    apart = {name for name in known if rule_of(name) not in (Rule.ELEMENTWISE, Rule.BY_ARGUMENTS)}
    assert len(known) > 100
    assert apart == {"equal"}  # which gives one truth value, whatever its tag says


def test_an_operator_that_is_not_listed_is_not_known() -> None:
    assert rule_of("mix_all_samples") is None
    assert rule_of("relu_") is rule_of("relu") is Rule.ELEMENTWISE
