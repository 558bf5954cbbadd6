"""Where transpositions put the rows of a batch, compared with what PyTorch and NumPy do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ddpify.understanding.shapes import transpositions
from ddpify.understanding.values import Const, Tup, Value, value

SIZES = (7, 3, 4, 5)
CASES: list[tuple[str, int, tuple[Any, ...]]] = [
    ("t", 2, ()), ("T", 2, ()), ("mT", 2, ()), ("mT", 3, ()), ("mT", 4, ()), ("mH", 3, ()),
    ("adjoint", 3, ()), ("transpose", 3, (0, 1)), ("transpose", 3, (0, -1)),
    ("transpose", 4, (-2, -1)), ("swapaxes", 3, (2, 0)), ("swapdims", 4, (1, 3)),
    ("permute", 3, (2, 0, 1)), ("permute", 3, ((1, -1, 0),)), ("permute", 4, ([3, 2, 1, 0],)),
    ("movedim", 3, (0, 2)), ("movedim", 3, (2, 0)), ("movedim", 4, ((0, 1), (2, 3))),
    ("moveaxis", 4, (-1, 1)),
]  # fmt: skip
OF_ARRAYS: list[tuple[str, int, tuple[Any, ...]]] = [
    ("T", 3, ()), ("transpose", 3, ()), ("transpose", 3, ((1, 2, 0),)),
    ("transpose", 3, (2, 0, 1)),
    ("rollaxis", 3, (2,)), ("rollaxis", 3, (0, 3)), ("rollaxis", 4, (1, 3)),
    ("moveaxis", 3, (2, 0)),
]  # fmt: skip


def _given(one: Any) -> Value:
    several = isinstance(one, (tuple, list))
    return value(Tup(tuple(value(Const(dim)) for dim in one)) if several else Const(one))


def _placed(name: str, dim: int, ndim: int, given: tuple[Any, ...]) -> int | None:
    return transpositions.place(name, dim, ndim, [_given(one) for one in given], {})


@pytest.mark.parametrize(("name", "ndim", "given"), CASES)
def test_the_rows_of_a_tensor_are_found_again(name: str, ndim: int, given: tuple[Any, ...]) -> None:
    made = getattr(torch.zeros(SIZES[:ndim]), name)
    sizes = (made(*given) if callable(made) else made).shape
    assert [_placed(name, dim, ndim, given) for dim in range(ndim)] == [
        list(sizes).index(size) for size in SIZES[:ndim]
    ]


@pytest.mark.parametrize(("name", "ndim", "given"), OF_ARRAYS)
def test_the_rows_of_an_array_are_found_again(name: str, ndim: int, given: tuple[Any, ...]) -> None:
    rows = np.zeros(SIZES[:ndim])
    function = getattr(np, name, None)
    if name in ("T", "transpose"):
        made = rows.T if name == "T" else rows.transpose(*given)
    else:
        assert function is not None
        made = function(rows, *given)
    assert [_placed(name, dim, ndim, given) for dim in range(ndim)] == [
        made.shape.index(size) for size in SIZES[:ndim]
    ]


def test_what_is_not_known_is_not_guessed() -> None:
    assert _placed("mT", 0, 0, ()) is None
    assert _placed("transpose", 0, 0, (0, -1)) is None
    assert _placed("movedim", 0, 0, (0, -1)) is None
    assert _placed("permute", 0, 0, (..., 1, 2)) is None
