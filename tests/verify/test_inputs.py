"""What a step was computed from besides the samples, compared without running anything."""

from __future__ import annotations

from dataclasses import replace

from ddpify.verify.compare import inputs
from ddpify.verify.compare.records import Step

EMPTY = Step(
    optimizer=0, lr=[], before=None, params=[], grads=[], losses=[], rows=[], row_size=0,
    columns=[], column_size=0, items=[], forwards=[], synchronised=[], clips=[], buffers=[], rng={},
    at="", roots=[], calls={}, module_read=False,
)  # fmt: skip
LIMIT = 1e-9


def step(*pairs: tuple[float, float]) -> Step:
    """A step whose losses took these predictions and targets."""
    predictions, targets = ([*side] for side in zip(*pairs, strict=True))
    sums = [a + 0.5 * b for a, b in pairs]
    return replace(EMPTY, predictions=predictions, targets=targets, pairs=sums)


ORIGINAL = step((1.0, 0.0), (2.0, 1.0), (3.0, 0.0), (4.0, 1.0))


def test_each_rank_has_its_part_of_the_pairs() -> None:
    ranks = [step((1.0, 0.0), (3.0, 0.0)), step((2.0, 1.0), (4.0, 1.0))]
    assert inputs.other_targets(ORIGINAL, ranks) == ""
    assert inputs.same_pairs(ORIGINAL, ranks)


def test_each_rank_has_all_pairs() -> None:
    assert inputs.other_targets(ORIGINAL, [ORIGINAL, ORIGINAL]) == ""
    assert not inputs.same_pairs(ORIGINAL, [ORIGINAL, ORIGINAL])


def test_targets_that_no_rank_has() -> None:
    ranks = [step((1.0, 0.0), (3.0, 0.0)), step((2.0, 0.0), (4.0, 1.0))]
    assert inputs.other_targets(ORIGINAL, ranks).startswith("of 4 rows that the losses take")


def test_predictions_that_meet_another_target() -> None:
    ranks = [step((1.0, 1.0), (3.0, 0.0)), step((2.0, 0.0), (4.0, 1.0))]
    assert inputs.other_targets(ORIGINAL, ranks) == "2 of 4 predictions meet another target"


def test_tensors_that_an_earlier_round_left() -> None:
    def carried(norm: float, length: int = 2) -> Step:
        return replace(EMPTY, carried={"center": ([length], (norm, norm))})

    assert inputs.other_carried(carried(1.0), [carried(1.0), carried(1.0)], LIMIT) == []
    assert inputs.other_carried(carried(1.0), [carried(1.0), carried(2.0)], LIMIT) == ["center"]
    assert inputs.other_carried(carried(1.0), [carried(1.0), carried(2.0, 3)], LIMIT) == []
