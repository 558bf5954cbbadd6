"""What operators give that couple samples, executed: how many tensors, and rows or none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from ddpify.understanding.operators import results

MATRIX = torch.rand(4, 4, dtype=torch.float64) + 2 * torch.eye(4, dtype=torch.float64)
IMAGES = torch.rand(2, 1, 8, 8, 8, dtype=torch.float64)
SEVERAL = sorted(name for count in results.SEVERAL.values() for name in count.split())


def _called(name: str) -> Any:
    if name.endswith("_with_indices"):
        places = int(name[name.index("d_") - 1])
        return getattr(functional, name)(IMAGES.flatten(places + 1)[..., :8], 2)
    if name in ("divmod", "modf"):
        rows = MATRIX.numpy()
        return np.divmod(rows, rows) if name == "divmod" else np.modf(rows)
    space: Any = torch.linalg if hasattr(torch.linalg, name) else torch
    more: dict[str, tuple[Any, ...]] = {
        "histogram": (4,),
        "lobpcg": (1,),
        "lstsq": (MATRIX,),
        "solve_ex": (MATRIX,),
        "triangular_solve": (MATRIX,),
        "lu_unpack": (torch.arange(1, 5, dtype=torch.int32),),
    }
    given = MATRIX @ MATRIX.T if name in ("cholesky_ex", "lobpcg") else MATRIX
    return getattr(space, name)(given, *more.get(name, ()))


@pytest.mark.parametrize("name", SEVERAL)
def test_an_operator_gives_so_many_tensors(name: str) -> None:
    assert len(_called(name)) == results.how_many(name, ())


@pytest.mark.parametrize("option", ["return_inverse", "return_counts"])
def test_options_ask_for_one_tensor_more(option: str) -> None:
    assert len(torch.unique(torch.arange(3), **{option: True})) == 2
    assert results.how_many("unique", {option}) == 2
    assert results.how_many("unique", ()) == 1
    assert results.how_many("max_pool2d", {"return_indices"}) == 2


@pytest.mark.parametrize("name", sorted(results.OF_A_MATRIX - {"slogdet", "trace"}))
def test_a_matrix_of_samples_has_one_number(name: str) -> None:
    of_one, of_many = (getattr(torch.linalg, name, None) or getattr(torch, name) for _ in range(2))
    assert of_one(MATRIX).shape == ()
    assert of_many(MATRIX.expand(3, 4, 4)).shape == (3,)


def test_tensors_among_several_have_names() -> None:
    made = [_called(name) for name in SEVERAL]
    kinds = [type(given) for given in made if type(given).__module__ == "torch.return_types"]
    kinds += [type(given) for given in made if type(given).__module__.startswith("torch.")]
    fields = {one for kind in kinds for one in vars(kind) if not one.startswith(("_", "n_"))}
    assert fields and fields <= results.FIELDS
