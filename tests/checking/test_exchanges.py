"""What is exchanged twice, in groups, or for nothing."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.checking import Report

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
