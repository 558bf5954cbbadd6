"""The plan as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpify.runtime.memory import FILLED, GIB, Footprint, Piece
from ddpify.sizing.largest import largest_batch
from ddpify.sizing.measuring import Measurement

GPUS = tuple(2**power for power in range(10))
"""1 to 512."""

USABLE = 0.9
"""The part of a device's memory that a training can fill: the rest is the driver's, the libraries'
and what fragments."""

HALF = 0.5
"""Bytes of a parameter in 16 bits as a share of its own, which are 32."""

_FRAGMENTS = (
    "Memory fragments less with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; without it the "
    "largest batch may be a fifth too large."
)

NOTHING = 0.01
"""The part of a device's memory below which it does not matter how much is used."""

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
        "samples": found.samples,
        "activations": found.activations,
        "activations_per_sample": found.per_sample,
        "temporaries": found.temporaries,
        "workspace": found.workspace,
        "precision": precision,
        "device_memory": size,
        "device_memory_assumed": not (memory or found.device_memory),
        "offload": offload,
        "table": [row.cells() for row in rows],
        "measured_batches": [found.batch, *(found.smaller or ())[:1]],
        "batches_tried": _tried(found),
        "batches_failed": found.steps.failure if found.steps else "",
    }


def _tried(found: Measurement) -> dict[int, int]:
    """Samples of the batches that were tried, and the bytes that a step adds."""
    tried = found.steps.tried if found.steps else {}
    return {samples: found.needed(found.tried(samples) or kept) for samples, kept in tried.items()}


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
        """Bytes; ``ddp`` and ``fsdp`` are without ``step``, which is what a step adds."""
        row = {
            "gpus": self.gpus,
            "ddp": self.held.replicated(self.gpus),
            "fsdp": self.held.sharded(self.gpus, self.share),
            "strategy": self.strategy,
            "step": self.found.step_on(self.gpus, self.parts),
            "largest_batch": self.largest_batch(),
        }
        if self.offload:
            row["offloaded"] = self.held.offloaded(self.share)
            row["host"] = self.held.divided(self.gpus) - self.held.buffers
        return row

    @property
    def strategy(self) -> str:
        return self.held.choice(self.gpus, self.size)

    @property
    def parts(self) -> int:
        """What each parameter is divided into."""
        return self.gpus if self.strategy == "fsdp" else 1

    def largest_batch(self) -> int | None:
        """Samples of the largest global batch that fits; None where it is not known.

        Some of a device is never a model's.
        """
        fixed = self.held.replicated(self.gpus)
        if self.strategy == "fsdp":
            own, away = self.held.sharded(self.gpus, self.share), self.held.offloaded(self.share)
            fixed = away if self.offload else own
        samples = self.found.samples
        most = None if samples is None else -(-samples // self.gpus)
        own_batch = largest_batch(self.found, USABLE * self.size - fixed, most, self.parts)
        if own_batch is None:
            return None
        whole = own_batch * self.gpus
        return whole if samples is None else min(whole, samples)


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
    """Bytes in the unit in which they are from 1 to 1023, to three digits."""
    number, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 999.5 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{number:.0f} B" if units[0] == "B" else f"{number:#.3g}".rstrip(".") + f" {units[0]}"


def _table(plan: dict[str, Any]) -> list[str]:
    """The rows that say something, under their heads, and why there are no more."""
    known = plan["activations"] is not None
    heads = ["GPUs", "DDP", "FSDP", *(["offloaded", "on the host"] if plan["offload"] else [])]
    heads += [*(["+ step"] if known else []), "--strategy auto"]
    heads += ["largest batch"] if plan["table"][0]["largest_batch"] is not None else []
    rows, reason = _shown(plan)
    cells = [heads, *(_texts(row, plan["samples"]) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    return [*lines, *([f"  {reason}"] if reason else [])]


def _shown(plan: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Rows up to the first that leaves nothing to ask, and what is so with more GPUs."""
    rows = plan["table"]
    for number, row in enumerate(rows[1:], 1):
        if plan["batch"] and row["gpus"] > plan["batch"]:
            return rows[:number], f"More GPUs have no sample each of a batch of {plan['batch']}."
        used = row[row["strategy"]] + (row["step"] or 0)
        if used < NOTHING * plan["device_memory"]:
            return rows[: number + 1], f"More GPUs fill less than {NOTHING:.0%} of each."
    return rows, ""


def _texts(row: dict[str, Any], samples: int | None) -> list[str]:
    texts = [str(row["gpus"]), readable(row["ddp"]), readable(row["fsdp"])]
    texts += [readable(row[name]) for name in ("offloaded", "host") if name in row]
    texts += [readable(row["step"])] if row["step"] is not None else []
    texts.append(row["strategy"])
    if row["largest_batch"] is None:
        return texts
    batch = row["largest_batch"]
    return [*texts, "none" if not batch else f"{'all ' if batch == samples else ''}{batch:,}"]


def _reasons(plan: dict[str, Any]) -> list[str]:
    size = readable(plan["device_memory"])
    whence = " (assumed: give --memory)" if plan["device_memory_assumed"] else ""
    needed = max(row["ddp"] for row in plan["table"])
    limit = FILLED * plan["device_memory"]
    verdict = "fits" if needed <= limit else "does not fit"
    lines = [
        f"On GPUs of {size}{whence} model and optimizer may fill {FILLED:.0%}, "
        f"{readable(round(limit))}; a step needs the rest.",
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
    lines += _how_batches_were_found(plan)
    if plan["activations"] is None:
        lines.append("Activations were not measured: the first step failed, or took too long.")
    lines += [f"Not measured, taken for Adam's: the states of {g}" for g in plan["guessed"]]
    return lines


def _how_batches_were_found(plan: dict[str, Any]) -> list[str]:
    if plan["table"][0]["largest_batch"] is None:
        return []
    tried, failure = plan["batches_tried"], plan["batches_failed"]
    how = f"The largest batch was found by trying {len(tried)} batches in a step without memory."
    if failure or not tried:
        why = f": the step cannot be tried without memory ({failure})" if failure else ""
        sizes = " and ".join(map(str, plan["measured_batches"]))
        how = f"The largest batch is calculated from what batches of {sizes} keep{why}."
    return [how, _FRAGMENTS]
