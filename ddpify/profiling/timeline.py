"""A step of every rank as one drawing: what each did from when to when."""

from __future__ import annotations

from html import escape

from ddpify.profiling.scaling import Point

WIDTH, LEFT, ROW, GAP, AXIS = 960, 64, 30, 10, 26
KINDS = (
    ("step", "computing", "--own"),
    ("backward", "backward", "--good"),
    ("gradients", "gradients travel", "--fair"),
    ("ranks", "waiting for ranks", "--other"),
    ("data", "waiting for data", "--bad"),
)
"""Kinds of spans, how they are called, and their colours; later ones are drawn over others."""


def timeline(one: Point) -> str:
    """The last measured step on each rank, as SVG; "" where it was not recorded."""
    end = max((stop for spans in one.timelines for _, _, stop in spans), default=0.0)
    if not end:
        return ""
    scale = (WIDTH - LEFT - 10) / end
    height = len(one.timelines) * (ROW + GAP) + AXIS
    parts = [_tick(end * tick / 4, scale, height) for tick in range(5)]
    for rank, spans in enumerate(one.timelines):
        y = rank * (ROW + GAP)
        parts.append(f"<text x='0' y='{y + ROW * 0.65:.0f}'>rank {rank}</text>")
        for kind, name, colour in KINDS:
            parts += [
                _box(y, begin * scale, (stop - begin) * scale, colour, kind == "gradients")
                + f"<title>{escape(name)} {(stop - begin) * 1e3:.2f} ms</title></rect>"
                for found, begin, stop in spans
                if found == kind
            ]
    view = f"viewBox='0 0 {WIDTH} {height}' style='max-width:{WIDTH}px'"
    return f"<svg {view} role='img' aria-label='a step by rank'>{''.join(parts)}</svg>"


def _box(y: float, x: float, width: float, colour: str, beside: bool) -> str:
    """The begin of a rectangle. ``beside``: it happens along with others, and is a thin one."""
    top, tall = (y + ROW * 0.75, ROW * 0.25) if beside else (y, ROW)
    return (
        f"<rect x='{LEFT + x:.1f}' y='{top:.1f}' width='{max(width, 0.5):.1f}' "
        f"height='{tall:.1f}' fill='var({colour})'>"
    )


def _tick(seconds: float, scale: float, height: int) -> str:
    x = LEFT + seconds * scale
    return (
        f"<path class='grid' d='M{x:.1f} 0V{height - AXIS}'/>"
        f"<text x='{x:.1f}' y='{height - 6}' text-anchor='middle'>{seconds * 1e3:.1f} ms</text>"
    )
