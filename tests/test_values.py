"""What values are made of, and when one is a part of another."""

from __future__ import annotations

from itertools import product
from typing import Any

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data
from ddpify.understanding.values.tensors import is_within, merge_key, merged

A, B = cst.Name("a"), cst.Name("b")
ONE, BOTH = frozenset({A}), frozenset({A, B})
FIELDS: dict[str, tuple[Any, ...]] = {
    "definition_sites": (frozenset(), ONE, BOTH),
    "names": (frozenset(), ONE, BOTH),
    "views": (frozenset(), ONE, BOTH),
    "found_in": (frozenset(), ONE),
    "taken_by": (frozenset(), frozenset({"0"})),
    "ndim": (0, 1, 2),
    "segments": ((), (frozenset(),)),
    "relative": (None, (A, 0), (A, 1)),
    **dict.fromkeys("one_each flat boolean several parted listed".split(), (False, True)),
}


def test_a_tensor_is_within_another_where_merging_them_gives_that() -> None:
    for placement in Placement:
        plain = Data(placement)
        changed = [replace(plain, **{name: x}) for name, held in FIELDS.items() for x in held]
        for one, other in product(changed, changed):
            assert merge_key(one) == merge_key(other)
            assert is_within(one, other) == (merged(other, one) == other), (one, other)
