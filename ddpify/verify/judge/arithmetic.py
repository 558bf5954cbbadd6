"""The second question: same arithmetic?"""

from __future__ import annotations

from collections.abc import Sequence

from ddpify.verify.compare import causes
from ddpify.verify.compare.records import Totals
from ddpify.verify.compare.steps import StepFindings
from ddpify.verify.verdict import Check, Comparison, Difference, What

REPEATED_ROWS = (
    "some rows enter the model whole on every rank. The variance that BatchNorm keeps is corrected "
    "for the number of rows, n / (n - 1), and so differs a little; nothing else does"
)
NEVER_ROUNDING = 1e-2
"""Relative differences above this are not looked at twice."""
ARITHMETIC = frozenset(
    [
        What.START,
        What.STEPS,
        What.BETWEEN,
        What.LOSS,
        What.GRADIENT,
        What.LEARNING_RATE,
        What.PARAMETER,
        What.BUFFER,
    ]
)
"""What a difference of the arithmetic is in."""


def may_be_rounding(found: StepFindings) -> bool:
    """Whether all that differs is so small that rounding, amplified, might explain it."""
    sizes = [item.size for item in found.differences if item.what is not What.LOSS]
    return bool(sizes) and all(size is not None and size < NEVER_ROUNDING for size in sizes)


def judge(
    comparison: Comparison, found: StepFindings, own: Totals, ranks: Sequence[Totals]
) -> None:
    """Add the rows and differences about the arithmetic of training."""
    comparison.differences += found.differences
    if not found.differences and (counts := _other_count(own, ranks)):
        comparison.differences.append(counts)
    kinds = {item.what for item in comparison.differences}
    partial = f" of {own.steps}" if found.compared < own.steps else ""
    comparison.checks += [
        Check("optimizer steps", What.STEPS not in kinds, f"{found.compared}{partial} compared"),
        _size_check("gradients", What.GRADIENT, found, kinds),
        Check("learning rates", What.LEARNING_RATE not in kinds),
        _size_check("parameters after each step", What.PARAMETER, found, kinds),
        _size_check("buffers", What.BUFFER, found, kinds),
    ]
    if found.correction and found.largest.get(What.BUFFER, 0.0) > found.limit:
        comparison.notes.append(REPEATED_ROWS)
    if found.syncs > 1:
        comparison.notes.append(
            f"gradients are averaged {found.syncs} times for one optimizer step: "
            "model.no_sync() around all but the last backward saves that [DDP801]"
        )


def _other_count(own: Totals, ranks: Sequence[Totals]) -> Difference | None:
    for rank, record in enumerate(ranks):
        if record.steps != own.steps:
            text = f"{record.steps} optimizer steps on rank {rank}; original {own.steps}"
            return Difference(What.STEPS, text, rank=rank, cause=causes.STEPS)
    return None


def _size_check(name: str, what: What, found: StepFindings, kinds: set[What]) -> Check:
    passed = what not in kinds and not (what is What.PARAMETER and What.START in kinds)
    allowed = max(found.limit, found.correction if what is What.BUFFER else 0.0)
    limit = f" (limit {allowed:.0e})" if passed else ""
    size = found.largest.get(what)
    return Check(name, passed, f"largest difference {size:.1e}{limit}" if size is not None else "")
