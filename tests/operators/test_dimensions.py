"""The places of dimensions among the arguments, compared with PyTorch's schemas and NumPy's."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from ddpify.understanding.operators.dimensions import ALONG, REDUCING

_OF_NUMPY = frozenset({"put_along_axis", "take_along_axis"})


def _in_schemas(name: str) -> set[tuple[int, int | None]]:
    """Where the overloads of an operator take one dimension, and what it is if not given."""
    known = {f"aten::{name}", f"aten::linalg_{name}"}
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        for place, argument in enumerate(schema.arguments if schema.name in known else ()):
            if argument.name in ("dim", "dimension") and str(argument.type) in (
                "int",
                "Optional[int]",
            ):
                found.add((place - 1, argument.default_value))
    return found


def _in_signature(name: str) -> set[tuple[int, int | None]]:
    parameters = list(inspect.signature(getattr(np, name)).parameters)
    return {(parameters.index("axis") - 1, None)}


@pytest.mark.parametrize("name", sorted(ALONG))
def test_a_dimension_is_where_the_library_takes_it(name: str) -> None:
    found = _in_signature(name) if name in _OF_NUMPY else _in_schemas(name)
    assert {place for place, _ in found} == {ALONG[name][0]}


@pytest.mark.parametrize("name", sorted(set(ALONG) - _OF_NUMPY))
def test_a_dimension_that_is_not_given_is_the_librarys(name: str) -> None:
    """Where overloads differ, it is not known: then it may be that of the samples."""
    defaults = {default for _, default in _in_schemas(name)}
    known = next(iter(defaults)) if len(defaults) == 1 else None
    assert ALONG[name][1] == known


def test_what_reduces_along_a_dimension_is_told_one() -> None:
    assert ALONG.keys() >= REDUCING
