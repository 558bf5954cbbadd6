"""The plan as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ddpify.runtime.memory import FILLED, GIB, Footprint, Piece
from ddpify.sizing.measuring import Measurement

GPUS = tuple(2**power for power in range(10))
"""1 to 512."""

ASSUMED = 80 * GIB
"""Bytes of a GPU where none is there to ask, and none is given."""


def plan_of(script: Path, found: Measurement, memory: int | None) -> dict[str, Any]:
    """Everything that the text says. ``memory``: bytes of a GPU, if it was given."""
    held = Footprint(tuple(Piece(*piece) for piece in found.pieces), found.buffers)
    size = memory or found.device_memory or ASSUMED
    rows = [
        {
            "gpus": gpus,
            "ddp": held.replicated(gpus),
            "fsdp": held.sharded(gpus),
            "strategy": held.choice(gpus, size),
        }
        for gpus in GPUS
    ]
    return {
        "script": str(script),
        "models": found.models,
        "optimizers": found.optimizers,
        "guessed": found.guessed,
        "parameters": held.parameters,
        "gradients": held.gradients,
        "optimizer_states": held.states,
        "buffers": held.buffers,
        "device_memory": size,
        "device_memory_assumed": not (memory or found.device_memory),
        "table": rows,
    }


def as_json(plan: dict[str, Any]) -> str:
    """Bytes throughout."""
    return json.dumps(plan, indent=2)


def render(plan: dict[str, Any]) -> str:
    """The plan for a terminal, in GiB, or in MiB where that is little."""
    names = ", ".join([*plan["models"], *plan["optimizers"]])
    small = max(row["ddp"] for row in plan["table"]) < GIB
    unit, name = (GIB >> 10, "MiB") if small else (GIB, "GiB")
    lines = [f"{plan['script']}: {names}", ""]
    for what in ("parameters", "gradients", "optimizer_states", "buffers"):
        lines.append(f"  {what.replace('_', ' '):<18}{plan[what] / unit:>10.2f} {name}")
    lines += ["", f"   GPUs  DDP: {name}/GPU  FSDP: {name}/GPU  --strategy auto"]
    for row in plan["table"]:
        ddp, fsdp = row["ddp"] / unit, row["fsdp"] / unit
        lines.append(f"  {row['gpus']:>5}  {ddp:>12.2f}  {fsdp:>13.2f}  {row['strategy']}")
    lines += ["", *_reasons(plan)]
    return "\n".join(lines)


def _reasons(plan: dict[str, Any]) -> list[str]:
    size = plan["device_memory"] / GIB
    whence = " (assumed: give --memory)" if plan["device_memory_assumed"] else ""
    needed = max(row["ddp"] for row in plan["table"])
    limit = FILLED * plan["device_memory"]
    verdict = "fits" if needed <= limit else "does not fit"
    lines = [
        f"On GPUs of {size:g} GiB{whence} model and optimizer may fill {FILLED:.0%}, "
        f"{limit / GIB:.2g} GiB; activations need the rest.",
        f"DistributedDataParallel {verdict}.",
    ]
    smallest = next((r["gpus"] for r in plan["table"][1:] if r["fsdp"] <= limit), None)
    if needed > limit:
        lines.append(
            f"FSDP fits from {smallest} GPUs on."
            if smallest
            else "FSDP does not fit either: name smaller blocks, or use larger GPUs."
        )
    lines += [f"Not measured, taken for Adam's: the states of {g}" for g in plan["guessed"]]
    return lines
