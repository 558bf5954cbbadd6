"""Advice that follows from the numbers, with the numbers that it follows from."""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.profiling.scaling import Point, Profile

MUCH_DATA = 0.15
MUCH_WAITING = 0.25
LITTLE_GAIN = 1.1
UNEVEN = 0.15


def advise(profile: Profile) -> list[str]:
    """One sentence or two for each thing that could be done, the most effective first."""
    return [*_too_many_for_the_machine(profile), *_ranks(profile), *_last(profile.points[-1])]


def _too_many_for_the_machine(profile: Profile) -> Iterator[str]:
    for one in profile.points:
        if one.gpus == 0 and one.ranks > one.cores:
            yield (
                f"{one.ranks} ranks shared {one.cores} CPU core(s): their numbers say nothing "
                "about a machine with a core or a GPU for each."
            )
            return


def _ranks(profile: Profile) -> Iterator[str]:
    for fewer, more in zip(profile.points, profile.points[1:], strict=False):
        gain = fewer.seconds / more.seconds
        if gain < LITTLE_GAIN:
            yield (
                f"{more.ranks} ranks are {gain:.2f} times as fast as {fewer.ranks}: use "
                f"{fewer.ranks}, or give each step more to compute (a larger global batch, with "
                "its learning rate)."
            )
            return


def _last(one: Point) -> Iterator[str]:
    """About the largest number of processes."""
    if one.data > MUCH_DATA:
        yield (
            f"{one.data:.0%} of a step on {one.ranks} rank(s) is waiting for data: raise the "
            "loaders' num_workers, with persistent_workers=True; decode or resize the data once, "
            "beforehand."
        )
    if one.ranks > 1 and one.communication > MUCH_WAITING:
        yield (
            f"{one.communication:.0%} of a step on {one.ranks} ranks is waiting for other ranks: "
            "accumulate gradients over several batches, make the global batch larger, or use fewer "
            "ranks; check the links with ddpify doctor."
        )
    if one.uneven > UNEVEN:
        yield (
            f"the busiest of {one.ranks} ranks computes {one.uneven:.0%} longer than the mean: "
            "look for other work on its device, or batches that are too small to share evenly."
        )
