"""Checkpoints that hold what the original had at an earlier step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ddpify.verify.compare import causes, records
from ddpify.verify.verdict import Cause

NEAR = 1e-7
"""Relative difference of two norms of the same tensor."""


def cause(saved: Any, original: Path) -> Cause | None:
    """Why a checkpoint differs, if a tensor in it is the original's of an earlier step.

    Args:
        saved: The tensor's shape, norm and projection; anything else is no tensor.
        original: The original's record.
    """
    if not isinstance(saved, list):
        return None
    for number, step in enumerate(records.steps(original), 1):
        before = any(abs(norm - saved[1]) <= NEAR * norm for norm, _ in step.before or ())
        if before or any(abs(norm - saved[1]) <= NEAR * norm for norm, _ in step.params):
            when = "before" if before else "after"
            text = f"it holds what the original has {when} step {number}: it is saved before the "
            return replace(causes.EARLIER_SAVE, text=f"{text}step that the original saves after")
    return None
