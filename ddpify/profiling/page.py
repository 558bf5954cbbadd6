"""A profile as one HTML page with two drawings; everything is in the file."""

from __future__ import annotations

from html import escape

from ddpify.profiling.advice import advise
from ddpify.profiling.report import details, head, row, title
from ddpify.profiling.scaling import Point, Profile
from ddpify.profiling.timeline import KINDS, timeline
from ddpify.verify.report.style import CSS

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 300, 56, 34, 14
_KINDS = (("computing", "--own"), ("waiting for ranks", "--other"), ("waiting for data", "--bad"))
_CSS = "rect.bar { height: auto; } polyline { fill: none; stroke-width: 2; }"


def as_html(profile: Profile) -> str:
    """``profile`` as an HTML document."""
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head())
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row(profile, one)) + "</tr>"
        for one in profile.points
    )
    advice = "".join(f"<li>{escape(text)}</li>" for text in advise(profile)) or "<li>none</li>"
    body = (
        f"<header class='good'><h1>Scaling of {escape(profile.script)}</h1>"
        f"<p class='soft'>{escape(title(profile))}</p></header>"
        f"<table class='facts'><tr>{cells}</tr>{rows}</table>"
        f"<h2>Speed-up</h2>{_key((('measured', '--own'), ('ideal', '--soft')))}{speedups(profile)}"
        f"<h2>Where a step's time goes</h2>{_key(_KINDS)}{shares(profile)}"
        f"{_step(profile.points[-1])}<h2>Advice</h2><ul>{advice}</ul>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Scaling of {escape(profile.script)}</title><style>{CSS}{_CSS}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _step(one: Point) -> str:
    """What a step of the last number of processes looks like, in a drawing and in words."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in details(one))
    drawing = timeline(one)
    if not drawing:
        return lines
    key = _key(tuple((name, colour) for _, name, colour in KINDS))
    return f"<h2>A step on {one.ranks} rank(s)</h2>{key}{drawing}{lines}"


def speedups(profile: Profile) -> str:
    """Speed-up over the number of processes, with the ideal line."""
    first, last = profile.points[0].ranks, profile.points[-1].ranks
    best = max(last / first, *(profile.speedup(one) for one in profile.points))

    def place(ranks: int, speedup: float) -> str:
        across = (ranks - first) / max(last - first, 1)
        x = LEFT + 20 + (WIDTH - LEFT - 40) * across
        return f"{x:.1f},{_y(speedup / best):.1f}"

    measured = " ".join(place(one.ranks, profile.speedup(one)) for one in profile.points)
    ideal = f"{place(first, 1)} {place(last, last / first)}"
    parts = [
        _line(ideal, "--soft", "stroke-dasharray='5 4'"),
        _line(measured, "--own", ""),
        *(_label(place(one.ranks, 0).split(",")[0], one.ranks) for one in profile.points),
        *(_tick(tick / 4, f"{best * tick / 4:.2g}") for tick in range(5)),
    ]
    return _svg(parts, "speed-up over the number of ranks")


def shares(profile: Profile) -> str:
    """One column for each number of processes, divided by what the time goes into."""
    step = (WIDTH - LEFT) / len(profile.points)
    parts = [_tick(tick / 4, f"{tick * 25} %") for tick in range(5)]
    for at, one in enumerate(profile.points):
        x = LEFT + step * (at + 0.5)
        parts += [*_column(x - min(step * 0.3, 40), min(step * 0.6, 80), one)]
        parts.append(_label(f"{x:.1f}", one.ranks))
    return _svg(parts, "shares of a step's time by the number of ranks")


def _column(x: float, width: float, one: Point) -> list[str]:
    parts, low = [], 0.0
    values = (one.compute, one.communication, one.data)
    for (name, colour), share in zip(_KINDS, values, strict=True):
        y, height = _y(low + share), (HEIGHT - TOP - BOTTOM) * share
        parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' "
            f"fill='var({colour})'><title>{name} {share:.0%}</title></rect>"
        )
        low += share
    return parts


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _line(points: str, colour: str, more: str) -> str:
    return f"<polyline points='{points}' stroke='var({colour})' {more}/>"


def _label(x: str, ranks: int) -> str:
    return f"<text x='{x}' y='{HEIGHT - 10}' text-anchor='middle'>{ranks}</text>"


def _tick(share: float, text: str) -> str:
    y = _y(share)
    return (
        f"<path class='grid' d='M{LEFT} {y:.1f}H{WIDTH}'/>"
        f"<text x='{LEFT - 8}' y='{y + 4:.1f}' text-anchor='end'>{text}</text>"
    )


def _svg(parts: list[str], label: str) -> str:
    view = f"viewBox='0 0 {WIDTH} {HEIGHT}' style='max-width:{WIDTH}px'"
    return f"<svg {view} role='img' aria-label='{escape(label)}'>{''.join(parts)}</svg>"


def _key(names: tuple[tuple[str, str], ...]) -> str:
    items = "".join(
        f"<span><i style='border-color:var({colour})'></i>{escape(name)}</span>"
        for name, colour in names
    )
    return f"<p class='key'>{items}</p>"
