"""Rows of all ranks that are read in each round of a loop over the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

BEFORE = HEAD + "seen = []\n" + STEP + "    out = brain(a)\n"


def test_they_are_gathered_once_before_a_loop(tmp_path: Path) -> None:
    body = "        seen.append((out[i, 0].item(), out[i, 1].item()))\n"
    lines = added(tmp_path, f"{BEFORE}    for i, kind in enumerate(b):\n{body}")
    assert lines.count("all_out = dd.gather(out)") == 1
    assert "seen.append((all_out[i, 0].item(), all_out[i, 1].item()))" in lines


def test_they_are_gathered_once_before_a_comprehension(tmp_path: Path) -> None:
    lines = added(tmp_path, BEFORE + "    seen.extend([out[i] for i in range(out.shape[0])])\n")
    assert "all_out = dd.gather(out)" in lines
    assert "seen.extend([all_out[i] for i in range(dd.global_batch_size(out))])" in lines


@pytest.mark.parametrize(
    "body",
    [
        "        out = out.exp()\n        seen.append(out[i, 0].item())\n",
        "        if kind > 0:\n            seen.append(out[i, 0].item())\n",
        "        all_out = 1\n        seen.append(out[i, 0].item())\n",
    ],
)
def test_what_a_loop_changes_or_asks_about_is_read_in_it(tmp_path: Path, body: str) -> None:
    lines = added(tmp_path, f"{BEFORE}    for i, kind in enumerate(b):\n{body}")
    assert "all_out = dd.gather(out)" not in lines
