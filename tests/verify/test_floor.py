"""Limits from what rounding-sized noise changes, without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from ddpify.verify.compare.differences import TOLERANCE
from ddpify.verify.compare.evidence import sizes
from ddpify.verify.compare.floor import Floor
from ddpify.verify.compare.records import Step
from ddpify.verify.verdict import What

FIELDS: dict[str, Any] = {name: [] for name in Step.__dataclass_fields__}


def step(*norms: float) -> Step:
    """A step that leaves parameters of these norms."""
    marks = [(norm, norm) for norm in norms]
    return Step(**{**FIELDS, "optimizer": 0, "params": marks})


def departures(noisy: Step, *norms: float) -> list[int]:
    floor = Floor()
    floor.raise_by(step(1.0, 1.0, 1.0), noisy)
    marks = [step(1.0, 1.0, 1.0).params, step(*norms).params]
    return [item.at for item in floor.beyond(What.PARAMETER, 0, marks, 0)]


def test_ten_times_what_noise_does() -> None:
    noisy = step(1 + 1e-8, 1 + 1e-8, 1 + 1e-8)
    assert departures(noisy, 1 + 5e-8, 1.0, 1 + 2e-7) == [2]


def test_a_tensor_that_noise_spares_by_luck() -> None:
    assert departures(step(1 + 1e-8, 1 + 1e-8, 1.0), 1.0, 1.0, 1 + 5e-8) == []
    assert departures(step(1 + 1e-8, 1.0, 1.0), 1.0, 1.0, 1 + 5e-8) == [2]


@pytest.mark.parametrize(
    ("size", "other", "counts"),
    [(1e-15, 5e-15, False), (0.0, 1e-14, False), (1e-12, 2e-12, True), (1e-6, 1e-6 + 5e-14, False)],
)
def test_what_is_rounding_beside_the_largest_tensor(
    size: float, other: float, counts: bool
) -> None:
    """The gradient of a bias in front of a BatchNorm is zero but for rounding."""
    found = list(sizes([(1.0, 1.0), (size, size)], [(1.0, 1.0), (other, other)]))
    assert (found[1] > TOLERANCE) is counts
