"""The plan as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpify.runtime.memory import FILLED, GIB, Footprint, Piece
from ddpify.sizing.measuring import Measurement

GPUS = tuple(2**power for power in range(10))
"""1 to 512."""

USABLE = 0.9
"""The part of a device's memory that a training can fill: the rest is the driver's, the libraries'
and what fragments."""

HALF = 0.5
"""Bytes of a parameter in 16 bits as a share of its own, which are 32."""

ASSUMED = 80 * GIB
"""Bytes of a GPU where none is there to ask, and none is given."""


def plan_of(
    script: Path,
    found: Measurement,
    memory: int | None,
    precision: str = "float32",
    *,
    offload: bool = False,
) -> dict[str, Any]:
    """Everything that the text says.

    Args:
        script: What was measured.
        found: The measurement.
        memory: Bytes of a GPU, if they were given.
        precision: What forward and backward compute in.
        offload: Whether FSDP keeps each rank's part in the host's memory.
    """
    held = Footprint(tuple(Piece(*piece) for piece in found.pieces), found.buffers)
    size = memory or found.device_memory or ASSUMED
    share = 1.0 if precision == "float32" else HALF
    rows = [_Row(held, found, gpus, size, share, offload) for gpus in GPUS]
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
        "activations_per_sample": found.per_sample,
        "precision": precision,
        "device_memory": size,
        "device_memory_assumed": not (memory or found.device_memory),
        "offload": offload,
        "table": [row.cells() for row in rows],
    }


@dataclass(frozen=True)
class _Row:
    """One number of GPUs."""

    held: Footprint
    found: Measurement
    gpus: int
    size: int
    share: float
    offload: bool

    def cells(self) -> dict[str, Any]:
        """Bytes, without activations but for those that the row names."""
        row = {
            "gpus": self.gpus,
            "ddp": self.held.replicated(self.gpus),
            "fsdp": self.held.sharded(self.gpus, self.share),
            "strategy": self.strategy,
            "activations": self.found.activations_on(self.gpus),
            "largest_batch": self.largest_batch(),
        }
        if self.offload:
            row["offloaded"] = self.held.offloaded(self.share)
            row["host"] = self.held.divided(self.gpus) - self.held.buffers
        return row

    @property
    def strategy(self) -> str:
        return self.held.choice(self.gpus, self.size)

    def largest_batch(self) -> int | None:
        """Samples of the largest global batch that fits; None where it is not known.

        Some of a device is never a model's.
        """
        if not self.found.per_sample:
            return None
        fixed = self.held.replicated(self.gpus)
        if self.strategy == "fsdp":
            own, away = self.held.sharded(self.gpus, self.share), self.held.offloaded(self.share)
            fixed = away if self.offload else own
        free = USABLE * self.size - fixed - self.found.fixed
        return max(int(free / self.found.per_sample), 0) * self.gpus


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
    cells = [["GPUs", "DDP", "FSDP", *(["offloaded", "on the host"] if plan["offload"] else [])]]
    cells[0] += [*(["+ activations"] if known else []), "--strategy auto"]
    cells[0] += ["largest batch"] if plan["table"][0]["largest_batch"] is not None else []
    shown: list[str] = []
    for row in plan["table"]:
        if plan["batch"] and row["gpus"] > max(plan["batch"], 1):
            break
        texts = [readable(row["ddp"]), readable(row["fsdp"])]
        texts += [readable(row[name]) for name in ("offloaded", "host") if name in row]
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
    if plan["offload"]:
        lines.append(
            "Offloaded, a rank's part lies in the host's memory (CPUOffloadPolicy of PyTorch's "
            "fully_shard, which convert does not write)."
        )
    if plan["activations"] is None:
        lines.append("Activations were not measured: the first step failed, or took too long.")
    lines += [f"Not measured, taken for Adam's: the states of {g}" for g in plan["guessed"]]
    return lines
