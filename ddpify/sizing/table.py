"""The plan as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ddpify.runtime.memory import FILLED, GIB, Footprint, Piece
from ddpify.sizing.measuring import Measurement

GPUS = tuple(2**power for power in range(10))
"""1 to 512."""

USABLE = 0.9
"""The part of a device's memory that a training can fill: the rest is the driver's, the libraries'
and what fragments."""

ASSUMED = 80 * GIB
"""Bytes of a GPU where none is there to ask, and none is given."""


def plan_of(
    script: Path, found: Measurement, memory: int | None, precision: str = "float32"
) -> dict[str, Any]:
    """Everything that the text says. ``memory``: bytes of a GPU, if it was given."""
    held = Footprint(tuple(Piece(*piece) for piece in found.pieces), found.buffers)
    size = memory or found.device_memory or ASSUMED
    return {
        "script": str(script),
        "models": found.models,
        "optimizers": found.optimizers,
        "guessed": found.guessed,
        "parameters": held.parameters,
        "gradients": held.gradients,
        "optimizer_states": held.states,
        "buffers": held.buffers,
        "batch": found.batch,
        "activations": found.activations,
        "precision": precision,
        "device_memory": size,
        "device_memory_assumed": not (memory or found.device_memory),
        "table": [_row(held, found, gpus, size) for gpus in GPUS],
    }


def _row(held: Footprint, found: Measurement, gpus: int, size: int) -> dict[str, Any]:
    """One number of GPUs; bytes, without activations but for those that the row names."""
    ddp, fsdp = held.replicated(gpus), held.sharded(gpus)
    strategy = held.choice(gpus, size)
    fixed = ddp if strategy == "ddp" else fsdp
    return {
        "gpus": gpus,
        "ddp": ddp,
        "fsdp": fsdp,
        "strategy": strategy,
        "activations": None if found.activations is None else -(-found.activations // gpus),
        "largest_batch": _largest_batch(found, gpus, size, fixed),
    }


def _largest_batch(found: Measurement, gpus: int, size: int, fixed: int) -> int | None:
    """Samples of the largest global batch that fits; None where it is not known.

    Activations grow with the number of samples, and some of a device is never a model's.
    """
    if not found.batch or not found.activations:
        return None
    free = USABLE * size - fixed
    return max(int(free * found.batch / found.activations), 0) * gpus


def as_json(plan: dict[str, Any]) -> str:
    """Bytes throughout."""
    return json.dumps(plan, indent=2)


def render(plan: dict[str, Any]) -> str:
    """The plan for a terminal."""
    names = ", ".join([*plan["models"], *plan["optimizers"]])
    lines = [f"{plan['script']}: {names}", ""]
    for what in ("parameters", "gradients", "optimizer_states", "buffers"):
        lines.append(f"  {what.replace('_', ' '):<18}{readable(plan[what]):>10}")
    if plan["activations"] is not None:
        batch = f" of a batch of {plan['batch']}" if plan["batch"] else " of a step"
        rounded = "" if plan["precision"] == "float32" else f", autocast to {plan['precision']}"
        lines.append(f"  {'activations':<18}{readable(plan['activations']):>10}{batch}{rounded}")
    lines += ["", *_table(plan), "", *_reasons(plan)]
    return "\n".join(lines)


def readable(size: int) -> str:
    """Bytes in the unit in which they are from 1 to 1023."""
    number, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 1023.5 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.3g} {units[0]}"


def _table(plan: dict[str, Any]) -> list[str]:
    """Rows up to as many GPUs as the batch has samples, and none that repeats the one above."""
    known = plan["activations"] is not None
    cells = [["GPUs", "DDP", "FSDP", *(["+ activations"] if known else []), "--strategy auto"]]
    cells[0] += ["largest batch"] if plan["table"][0]["largest_batch"] is not None else []
    shown: list[str] = []
    for row in plan["table"]:
        if plan["batch"] and row["gpus"] > max(plan["batch"], 1):
            break
        texts = [readable(row["ddp"]), readable(row["fsdp"])]
        texts += [readable(row["activations"])] if known else []
        texts += [row["strategy"]]
        texts += [] if row["largest_batch"] is None else [str(row["largest_batch"])]
        if texts != shown:
            cells.append([str(row["gpus"]), *texts])
        shown = texts
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]


def _reasons(plan: dict[str, Any]) -> list[str]:
    size = plan["device_memory"] / GIB
    whence = " (assumed: give --memory)" if plan["device_memory_assumed"] else ""
    needed = max(row["ddp"] for row in plan["table"])
    limit = FILLED * plan["device_memory"]
    verdict = "fits" if needed <= limit else "does not fit"
    lines = [
        f"On GPUs of {size:g} GiB{whence} model and optimizer may fill {FILLED:.0%}, "
        f"{readable(round(limit))}; activations need the rest.",
        f"DistributedDataParallel {verdict}.",
    ]
    smallest = next((r["gpus"] for r in plan["table"][1:] if r["fsdp"] <= limit), None)
    if needed > limit:
        lines.append(
            f"FSDP fits from {smallest} GPUs on."
            if smallest
            else "FSDP does not fit either: name smaller blocks, or use larger GPUs."
        )
    if plan["activations"] is None:
        lines.append("Activations were not measured: the first step failed, or took too long.")
    lines += [f"Not measured, taken for Adam's: the states of {g}" for g in plan["guessed"]]
    return lines
