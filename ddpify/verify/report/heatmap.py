"""The divergence of each parameter over the steps, as a small picture: one pixel a value."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence

LEVELS = 34
"""Half powers of ten from 1e-16 to 10; level 0 is exactly equal."""
MISSING = LEVELS + 1


def level(value: float | None) -> int:
    """The level of a relative difference."""
    if value is None:
        return MISSING
    if value != value or value == math.inf:
        return LEVELS
    if value == 0:
        return 0
    return min(max(int(2 * (math.log10(value) + 16)), 1), LEVELS)


def png(rows: Sequence[Sequence[float | None]], limit: float) -> str:
    """A data URI of a picture, one row of pixels for each of ``rows`` (equally long)."""
    width = max((len(row) for row in rows), default=0)
    lines = b"".join(b"\0" + bytes(map(level, row)) for row in rows)
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    body = (
        _chunk(b"IHDR", header)
        + _chunk(b"PLTE", palette(limit))
        + _chunk(b"IDAT", zlib.compress(lines, 9))
        + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def palette(limit: float) -> bytes:
    """Red, green and blue by level: greens up to ``limit``, from there on yellow to dark red."""
    edge = level(limit)
    colours = [_mixed(at, edge) for at in range(LEVELS + 1)]
    return bytes(part for colour in [*colours, (128, 128, 128)] for part in colour)


def _mixed(at: int, edge: int) -> tuple[int, int, int]:
    if at <= edge:
        share = at / max(edge, 1)
        return _between((232, 244, 238), (102, 178, 145), share)
    share = (at - edge) / max(LEVELS - edge, 1)
    if share < 0.5:
        return _between((250, 214, 110), (224, 102, 52), share * 2)
    return _between((224, 102, 52), (110, 12, 32), share * 2 - 1)


def _between(
    a: tuple[int, int, int], b: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    mixed = [round(x + (y - x) * share) for x, y in zip(a, b, strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check
