"""A verdict for machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from typing import Any

from ddpify.verify.verdict import Comparison, Verdict

SCHEMA = 1
"""Goes up when a field changes its meaning or goes away; new fields may come at any time."""


def as_json(verdict: Verdict) -> str:
    """``verdict`` as a JSON object; see docs/verify.md for its fields."""
    data = {
        "schema": SCHEMA,
        "verdict": verdict.kind.value,
        "exit_code": verdict.exit_code,
        "except": [cause.name for cause in verdict.named],
        "original": verdict.original,
        "converted": verdict.converted,
        "torch": verdict.torch,
        "date": verdict.date,
        "command": verdict.command,
        "device": verdict.device,
        "seconds": round(verdict.seconds, 1),
        "steps": verdict.steps,
        "failure": verdict.failure,
        "faked": verdict.faked,
        "notes": verdict.notes,
        "comparisons": [_comparison(comparison) for comparison in verdict.comparisons],
    }
    return json.dumps(data, indent=2, default=_plain)


def _comparison(comparison: Comparison) -> dict[str, Any]:
    data = asdict(comparison)
    del data["series"]
    first = comparison.leading
    data["first_difference"] = comparison.differences.index(first[0]) if first else None
    return {"verdict": data.pop("kind"), **data}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else str(value)
