"""Line charts as SVG, drawn once: the page needs no script for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Values = Sequence[float | None]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 64, 12, 10, 26


@dataclass(frozen=True)
class Line:
    """One curve: its name, the CSS class that colours it, and a value for each step."""

    name: str
    kind: str
    values: Values


@dataclass(frozen=True)
class Chart:
    """Curves over the steps.

    Attributes:
        lines: What is drawn.
        height: In pixels.
        log: Whether the values, all of them positive, are drawn by their logarithm.
        limit: A value to draw a level line at.
        label: What the values are, for those who do not see the picture.
        mark: A step, counted from 1, at which a vertical line is drawn.
    """

    lines: Sequence[Line]
    height: int = 240
    log: bool = False
    limit: float | None = None
    label: str = ""
    mark: int | None = None

    def svg(self) -> str:
        """The chart as an SVG element."""
        values = [self._scaled(v) for line in self.lines for v in line.values if _drawn(v)]
        if self.limit is not None:
            values.append(self._scaled(self.limit))
        ticks = _log_ticks(values) if self.log else _ticks(min(values, default=0.0),
                                                           max(values, default=1.0))  # fmt: skip
        low, high = ticks[0], ticks[-1]
        parts = [self._grid(tick, low, high) for tick in ticks]
        parts += self._steps()
        if self.limit is not None:
            y = self._y(self._scaled(self.limit), low, high)
            parts.append(f'<path class="limit" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        if self.mark is not None and self.mark <= self.count:
            x, bottom = self._x(self.mark - 1), self.height - BOTTOM
            parts.append(f'<path class="limit" d="M{x:.1f} {TOP}V{bottom}"/>')
        parts += [self._curve(line, low, high) for line in self.lines]
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-label="{escape(self.label)}">{"".join(parts)}</svg>'
        )

    @property
    def count(self) -> int:
        """Steps that are drawn."""
        return max((len(line.values) for line in self.lines), default=0)

    def _scaled(self, value: float | None) -> float:
        value = value or 0.0
        return math.log10(max(value, 1e-17)) if self.log else value

    def _x(self, at: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at + 0.5) / max(self.count, 1)

    def _y(self, value: float, low: float, high: float) -> float:
        share = (value - low) / (high - low)
        return TOP + (self.height - TOP - BOTTOM) * (1 - share)

    def _grid(self, tick: float, low: float, high: float) -> str:
        y = self._y(tick, low, high)
        text = f"1e{tick:.0f}" if self.log else f"{tick:.4g}"
        return (
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )

    def _steps(self) -> list[str]:
        every = max(1, math.ceil(self.count / 12))
        y = self.height - 8
        return [
            f'<text x="{self._x(at):.1f}" y="{y}" text-anchor="middle">{at + 1}</text>'
            for at in range(0, self.count, every)
        ]

    def _curve(self, line: Line, low: float, high: float) -> str:
        points, pen = [], "M"
        for at, value in enumerate(line.values):
            if not _drawn(value):
                pen = "M"
                continue
            points.append(f"{pen}{self._x(at):.1f} {self._y(self._scaled(value), low, high):.1f}")
            pen = "L"
        name = escape(line.name)
        return f'<path class="curve {line.kind}" d="{"".join(points)}"><title>{name}</title></path>'


def _drawn(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _ticks(low: float, high: float) -> list[float]:
    """Round values that span ``low`` to ``high``."""
    span = (high - low) or abs(high) or 1.0
    size = 10 ** math.floor(math.log10(span / 4))
    step = next(size * k for k in (1, 2, 5, 10) if span / (size * k) <= 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [at * step for at in range(first, max(last, first + 1) + 1)]


def _log_ticks(values: Sequence[float]) -> list[float]:
    """Whole powers of ten around ``values``, at most six."""
    low = math.floor(min(values, default=-16.0))
    high = max(math.ceil(max(values, default=0.0)), low + 1)
    step = max(1, math.ceil((high - low) / 5))
    return [float(at) for at in range(low, high + step, step)]
