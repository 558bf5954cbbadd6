"""Where operators take samples, and where a table or a weight, executed on parts of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from ddpify.understanding.operators.places import HOLDING_ROWS, NUMPYS_OWN, TABLE

ROWS = torch.tensor([0.1, 0.9, 0.4, 0.7, 0.2, 0.6])
LINE = torch.tensor([0.1, 0.3, 0.4, 0.8])
LOOKING_UP: dict[str, Callable[..., Any]] = {
    "bucketize": torch.bucketize,
    "digitize": lambda rows, table: torch.from_numpy(np.digitize(rows.numpy(), table.numpy())),
    "isin": lambda rows, table: torch.isin((rows * 20).long(), (table * 20).long()),
    "searchsorted": lambda table, rows: torch.searchsorted(table, rows),
}


def _batch(*sizes: int) -> torch.Tensor:
    return torch.rand(4, *sizes, dtype=torch.float64)


OF_SAMPLES: dict[str, Callable[[], list[torch.Tensor]]] = {
    "affine_grid": lambda: [_batch(2, 3)],
    "baddbmm": lambda: [_batch(2, 5), _batch(2, 3), _batch(3, 5)],
    "bilinear": lambda: [_batch(3), _batch(2)],
    "bmm": lambda: [_batch(2, 3), _batch(3, 5)],
    "grid_sample": lambda: [_batch(1, 4, 4), _batch(3, 3, 2)],
    "scaled_dot_product_attention": lambda: [
        _batch(3, 2),
        _batch(3, 2),
        _batch(3, 2),
        _batch(3, 3),
    ],
}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_each_sample_is_looked_up_in_the_whole_table(name: str) -> None:
    function, first = LOOKING_UP[name], TABLE[name] == 0

    def looked_up(rows: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = function(table, rows) if first else function(rows, table)
        return made

    whole = looked_up(ROWS, LINE)
    parts = [looked_up(part, LINE) for part in torch.split(ROWS, [2, 4])]
    assert torch.equal(torch.cat(parts), whole)
    assert not torch.equal(looked_up(ROWS, LINE[:2]), whole)


def _more(name: str, rows: int) -> list[Any]:
    """The arguments behind those that hold samples, for so many of these."""
    more: dict[str, list[Any]] = {
        "affine_grid": [[rows, 1, 3, 3], False],
        "bilinear": [torch.ones(5, 3, 2, dtype=torch.float64)],
        "grid_sample": ["bilinear", "zeros", False],
    }
    return more.get(name, [])


@pytest.mark.parametrize("name", sorted(OF_SAMPLES))
def test_so_many_arguments_hold_samples(name: str) -> None:
    torch.manual_seed(0)
    given = OF_SAMPLES[name]()
    assert len(given) == HOLDING_ROWS[name]
    function = getattr(functional, name, None) or getattr(torch, name)
    whole = function(*given, *_more(name, 4))
    parts = zip(*(torch.split(one, [1, 3]) for one in given), strict=True)
    made = [function(*part, *_more(name, len(part[0]))) for part in parts]
    torch.testing.assert_close(torch.cat(made), whole)


def test_numpy_means_something_else_by_these_names() -> None:
    rows = np.arange(4.0).reshape(2, 2)
    assert np.pad(rows, 1).shape == (4, 4) != functional.pad(torch.from_numpy(rows), (1, 1)).shape
    assert (
        np.repeat([1, 2], [2, 1]).tolist()
        == torch.tensor([1, 2]).repeat_interleave(torch.tensor([2, 1])).tolist()
    )
    assert NUMPYS_OWN["numpy.repeat"] == "repeat_interleave"
