"""What the indices of the samples show, without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from ddpify.verify.compare import data
from ddpify.verify.compare.batches import Batch, Reading


def reading(passes: list[list[list[int]]], complete: set[int]) -> Reading:
    """A loader that is trained on, by the indices of its batches."""
    made = [[_batch(ids) for ids in batches] for batches in passes]
    return Reading(0, made, complete, trains=True)


def _batch(ids: list[int]) -> Batch:
    return Batch(ids, list(ids), [float(index) for index in ids], subset=False, single=False)


FIRST, SECOND = [[0, 1, 2, 3], [4, 5, 6, 7]], [[7, 6, 5, 4], [3, 2, 1, 0]]


def rank(batches: list[list[int]], number: int) -> list[list[int]]:
    return [ids[number::2] for ids in batches]


def rules(own: list[Any], ranks: list[list[Any]], complete: set[int]) -> tuple[str, ...]:
    found = data.compare([reading(own, complete)], [[reading(one, complete)] for one in ranks])
    assert found.compared
    return found.cause.rules if found.cause else ()


def test_a_part_for_each_rank() -> None:
    own = [FIRST, SECOND]
    assert rules(own, [[rank(one, r) for one in own] for r in (0, 1)], {0, 1}) == ()


@pytest.mark.parametrize("peek", [False, True])
def test_one_order_for_all_passes(peek: bool) -> None:
    """A look at the first batch, as by next(iter(loader)), is no pass."""
    own, other = [FIRST, SECOND], [FIRST, FIRST]
    if peek:
        own, other = [own[0][:1], own[0], own[1]], [other[0][:1], other[0], other[1]]
    complete = {1, 2} if peek else {0, 1}
    ranks = [[rank(one, r) for one in other] for r in (0, 1)]
    assert rules(own, ranks, complete) == ("DDP102",)


def test_a_last_batch_that_is_filled_up() -> None:
    own = [[[0, 1, 2, 3], [4, 5]]]
    ranks = [[[[0, 1], [4, 5]]], [[[2, 3], [0, 1]]]]
    assert rules(own, ranks, {0}) == ("DDP112",)


def test_samples_on_two_ranks_before_the_end_are_no_padding() -> None:
    own = [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    ranks = [[[[0, 1, 2], [4, 5]]], [[[1, 2, 3], [6, 7]]]]
    assert rules(own, ranks, {0})[0] == "DDP104"
