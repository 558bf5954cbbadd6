"""What is exchanged twice, in groups, or for nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddpify.checking import Report
from ddpify.checking.exchanges import exchange_findings
from ddpify.verify.inside import scales

Checked = Callable[..., tuple[Report, list[str]]]

CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
AGAIN = "            for p in net.parameters():\n                dist.all_reduce(p.grad)\n"


def found(report: Report, lines: list[str]) -> set[tuple[str, str]]:
    return {(one.code, lines[(one.line or 1) - 1].strip()[:20]) for one in report.findings}


def test_gradients_that_are_reduced_once_more(checked: Checked) -> None:
    assert found(*checked("sampled", (CLIP, AGAIN + CLIP), steps=3)) == {
        ("DDP409", "dist.all_reduce(p.gr")
    }


def test_a_group_whose_ranks_do_not_call_alike(checked: Checked) -> None:
    group = (
        "    group = dist.new_group([0, 1])\n    if rank:\n"
        "        dist.all_reduce(torch.ones(1), group=group)\n    best = float"
    )
    report, lines = checked("sampled", ("    best = float", group), steps=2)
    assert ("DDP401", "dist.all_reduce(torc") in found(report, lines)


def test_barriers_in_each_step_are_a_note(checked: Checked) -> None:
    step = "            optimizer.step()\n"
    report, _ = checked("sampled", (step, f"{step}            dist.barrier()\n"), steps=6)
    assert report.findings == []
    assert any("DDP802" in note for note in report.notes)


def test_factors_of_the_loss_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.amp.GradScaler, "update", torch.amp.GradScaler.update)
    told: list[dict[str, Any]] = []
    scales.watch(lambda kind, **values: told.append({"event": kind, **values}), lambda: "a.py:3")
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    scaler.update(4.0)
    assert told == [{"event": "scale", "value": 4.0, "at": "a.py:3"}]
    ranks: Any = [told, [{**told[0], "value": 2.0}]]
    run: Any = SimpleNamespace(
        ranks=(0, 1), events=lambda rank, kind: (e for e in ranks[rank] if e["event"] == kind)
    )
    (one,) = exchange_findings(run)
    assert (one.code, one.at) == ("DDPF07", "a.py:3")
    assert "4 on rank 0, 2 on rank 1" in one.message
