"""What the indices of the samples show, without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from ddpify.verify.compare import causes, data
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


def test_a_smaller_global_batch_is_no_other_order() -> None:
    own = [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    ranks = [[[[0], [2], [4], [6]]], [[[1], [3], [5], [7]]]]
    assert rules(own, ranks, {0}) == ("DDP110",)
    assert rules(own, [[[[0, 5], [2, 7]]], [[[1, 4], [3, 6]]]], {0}) == ("DDP113",)


def test_a_sampler_that_does_not_shuffle() -> None:
    """The ranks take every second sample, so that a batch alone is not in order."""
    own = [SECOND, [[3, 5, 0, 7], [1, 2, 6, 4]]]
    ranks = [[rank(FIRST, r)] * 2 for r in (0, 1)]
    found = data.compare([reading(own, {0, 1})], [[reading(one, {0, 1})] for one in ranks])
    assert found.cause is causes.NOT_SHUFFLED


def test_samples_that_are_dropped_at_the_end() -> None:
    own = [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]]
    kept = [[[[0, 5], [2, 7]]], [[[1, 4], [3, 6]]]]
    assert rules(own, kept, {0}) == ("DDP114",)
    short = [[[[0, 5], [2]]], [[[1], [3, 6]]]]
    assert rules(own, short, {0})[0] == "DDP104"


@pytest.mark.parametrize(("first", "other"), [([0, 1], False), ([2, 4], True)])
def test_padding_does_not_hide_another_order(first: list[int], other: bool) -> None:
    own = [[[0, 1, 2, 3], [4, 5, 6, 7], [8]]]
    ranks = [[[first, [4, 5], [8]]], [[[2, 3], [6, 7], [0]]]]
    if other:
        ranks = [[[first, [0, 5], [8]]], [[[1, 3], [6, 7], [2]]]]
    found = data.compare([reading(own, {0})], [[reading(one, {0})] for one in ranks])
    assert (found.cause, found.reordered) == (causes.PADDING, other)
