"""A script that is doubled takes at most twice the steps to understand, times 1.2."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scaling import SHAPES, planned_steps

MOST = 2 * 1.2


@pytest.mark.parametrize("size", [8, 16, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_doubled(shape: str, size: int, tmp_path: Path) -> None:
    script = SHAPES[shape]
    once = planned_steps(script(size), tmp_path)
    assert once > 10 * size  # all of it is understood
    assert planned_steps(script(2 * size), tmp_path) <= MOST * once
