"""Advice that follows from the numbers, with the numbers that it follows from."""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.profiling.scaling import GRADIENTS, Point, Profile

MUCH_DATA = 0.15
MUCH_WAITING = 0.25
LITTLE_GAIN = 1.1
UNEVEN = 0.15
SHORT = 0.005
"""Seconds of a step below which what Python and the network cost at all hides the rest."""
MUCH_EXPOSED = 0.1
LARGE_BUCKET = 4 << 20
SMALL_BUCKET = 1 << 20
MOSTLY = 0.6


def advise(profile: Profile) -> list[str]:
    """One sentence or two for each thing that could be done, the most effective first."""
    last = profile.points[-1]
    general = [
        *_grows_twice(profile),
        *_too_short(profile),
        *_too_many_for_the_machine(profile),
        *_ranks(profile),
    ]
    return [*general, *_last(last), *_gradients(last), *_precision(last)]


def _too_short(profile: Profile) -> Iterator[str]:
    short = [one for one in profile.points if one.seconds < SHORT]
    if short:
        yield (
            f"a step on {short[0].ranks} rank(s) takes {short[0].seconds * 1e3:.1f} ms, most of "
            "which is the start of operations: this says little about larger batches or models. "
            "Profile with those that you will train."
        )


def _grows_twice(profile: Profile) -> Iterator[str]:
    first, last = profile.points[0], profile.points[-1]
    if (
        profile.weak
        and first.samples
        and last.samples / first.samples > 1.5 * last.ranks / first.ranks
    ):
        yield (
            f"a step has {first.samples:.0f} samples on {first.ranks} rank(s) and "
            f"{last.samples:.0f} on {last.ranks}: the script's batch size is each rank's already. "
            "Leave --weak out."
        )


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
        gain = profile.gain(fewer, more)
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
            f"loaders' num_workers ({one.workers} now), with persistent_workers=True; decode or "
            "resize the data once, beforehand."
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


def _gradients(one: Point) -> Iterator[str]:
    """About the all-reduces of DistributedDataParallel, where backward does not hide them."""
    exposed = dict(one.waits).get(GRADIENTS, 0.0)
    if exposed < MUCH_EXPOSED or not one.buckets:
        return
    size, count = sum(one.buckets), len(one.buckets)
    start = f"{exposed:.0%} of a step on {one.ranks} ranks is waiting for gradients: "
    if count == 1 and size >= LARGE_BUCKET:
        yield (
            f"{start}they travel in one bucket of {size / 2**20:.0f} MiB, when backward is over. "
            f"Give DistributedDataParallel bucket_cap_mb={max(size >> 22, 1)}."
        )
    elif count > 1 and size / count < SMALL_BUCKET:
        yield (
            f"{start}they travel in {count} buckets of {size / count / 2**10:.0f} KiB on average. "
            "Give DistributedDataParallel a larger bucket_cap_mb."
        )
    elif size >= LARGE_BUCKET:
        yield (
            f"{start}{size / 2**20:.0f} MiB a step. bf16_compress_hook halves them, and rounds "
            "gradients to bfloat16."
        )


def _precision(one: Point) -> Iterator[str]:
    if one.gpus and one.full_precision and one.compute > MOSTLY:
        yield (
            f"{one.compute:.0%} of a step is computing, and float32 is multiplied in full: "
            "torch.set_float32_matmul_precision('high') or torch.autocast is faster, and rounds."
        )
