"""A model's graph, which loggers draw by tracing it, is no part of the training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ddpify.verify import Kind, Verdict, render

MODEL = "    optimizer = torch.optim.Adam"
TRACED = "    torch.jit.trace(model, torch.zeros(8, 6))\n"


def test_traced_by_rank_0(folder: Path, mutant: Callable[..., Verdict]) -> None:
    single = folder / "single.py"
    single.write_text(single.read_text().replace(MODEL, TRACED + MODEL))
    verdict = mutant((MODEL, f"    if rank == 0:\n    {TRACED}{MODEL}"))
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
