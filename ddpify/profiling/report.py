"""A profile as text."""

from __future__ import annotations

import json

from ddpify.profiling.advice import advise
from ddpify.profiling.scaling import Point, Profile

_HEAD = ("ranks", "steps/s", "speed-up", "efficiency", "computing", "ranks' wait", "data", "memory")

_BUCKETS = 8
"""The most buckets whose sizes are listed."""


def as_json(profile: Profile) -> str:
    """The numbers and the advice."""
    return json.dumps({**profile.to_json(), "advice": advise(profile)}, indent=2)


def as_text(profile: Profile) -> str:
    """A table, what the last row's ranks wait for, and the advice."""
    rows = [_HEAD, *(row(profile, one) for one in profile.points)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for cells in rows
    ]
    lines = [title(profile), "", *lines, "", *details(profile.points[-1])]
    return "\n".join([*lines, *(f"- {text}" for text in advise(profile))])


def details(one: Point) -> list[str]:
    """What the ranks of one number of processes wait for, one idea a line; an empty line last."""
    lines = []
    if one.waits:
        waits = ", ".join(f"{name} {share:.0%}" for name, share in one.waits)
        lines.append(f"{one.ranks} rank(s) wait for: {waits}")
    if one.ranks > 1:
        idle = (
            f"{rank}: {waited + data:.0%}" for rank, (_, waited, data) in enumerate(one.by_rank)
        )
        lines.append(f"idle by rank: {', '.join(idle)}")
    if one.buckets and one.hidden is not None:
        sizes = ", ".join(f"{size / 2**20:.2g} MiB" for size in one.buckets[:_BUCKETS])
        more = ", ..." if len(one.buckets) > _BUCKETS else ""
        text = f"gradients travel in {len(one.buckets)} bucket(s) ({sizes}{more})"
        lines.append(f"{text}; backward hides {one.hidden:.0%} of their way")
    return [*lines, ""] if lines else []


def title(profile: Profile) -> str:
    """One line: what was run where."""
    first, last = profile.points[0], profile.points[-1]
    place = f"{first.gpus} GPU(s)" if first.gpus else f"{first.cores} CPU core(s)"
    line = f"{profile.script}: {first.steps} steps on {place}, torch {profile.torch}"
    if first.samples and last.samples:
        more = f" to {last.samples:.0f}" if last.samples != first.samples else ""
        return f"{line}, {first.samples:.0f}{more} samples a step"
    return line + (", the batch grows with the ranks" if profile.weak else "")


def row(profile: Profile, one: Point) -> tuple[str, ...]:
    """The cells of one number of processes, as in the table's head."""
    return (
        str(one.ranks),
        f"{one.speed:.2f}",
        f"{profile.speedup(one):.2f}",
        f"{profile.efficiency(one):.0%}",
        f"{one.compute:.0%}",
        f"{one.communication:.0%}",
        f"{one.data:.0%}",
        f"{(one.gpu or one.host) / 2**20:.0f} MiB",
    )


def head() -> tuple[str, ...]:
    """The table's head."""
    return _HEAD
