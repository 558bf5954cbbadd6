"""Planted bugs in a right hand-written port: each is caught, at the right place, with the right
cause."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ddpify.verify import Kind, Verdict, What, render

Mutant = Callable[..., Verdict]

BACKWARD = "(loss * world / count).backward()"
STEP = "            optimizer.step()\n"


def first(verdict: Verdict) -> tuple[What, tuple[str, ...], str]:
    """What differs first, the suspected rules, and the whole text in one line."""
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.exit_code == 1
    found = verdict.comparisons[0].differences[0]
    text = " ".join(render(verdict).split())
    return found.what, found.cause.rules if found.cause else (), text


def test_right_port_is_equivalent(mutant: Mutant) -> None:
    verdict = mutant(nproc=(2, 3))
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert verdict.exit_code == 0
    assert verdict.steps == 14
    assert [comparison.nproc for comparison in verdict.comparisons] == [2, 3]


def test_no_split(mutant: Mutant) -> None:
    verdict = mutant(
        ("x[rank::world], y[rank::world]", "x, y"), (BACKWARD, "(loss / count).backward()")
    )
    what, rules, text = first(verdict)
    assert what is What.DATA
    assert rules == ("DDP101",)
    assert "work is not split" in text


@pytest.mark.parametrize(
    ("new", "rule"),
    [
        ("(loss / count).backward()", "DDP409"),
        ("(loss * world * world / count).backward()", "DDP409"),
        ("(loss * world / 4 / count).backward()", "DDP416"),
    ],
)
def test_scaled_loss(mutant: Mutant, new: str, rule: str) -> None:
    what, rules, text = first(mutant((BACKWARD, new)))
    assert what in (What.LOSS, What.GRADIENT)
    assert rule in rules
    assert "every gradient is" in text


def test_learning_rate_on_one_rank(mutant: Mutant) -> None:
    old = "        scheduler.step()\n"
    verdict = mutant((old, "        if rank == 0:\n            scheduler.step()\n"))
    what, rules, _ = first(verdict)
    assert what is What.LEARNING_RATE
    assert rules == ("DDP407",)
    assert verdict.comparisons[0].differences[0].step == 8


def test_prints_on_every_rank(mutant: Mutant) -> None:
    what, _, text = first(
        mutant(("        if rank == 0:\n            print", "        if True:\n            print"))
    )
    assert what is What.PRINTED
    assert "every rank prints" in text


def test_printed_number_of_one_rank(mutant: Mutant) -> None:
    what, rules, _ = first(mutant(("        dist.all_reduce(total)\n", "")))
    assert what is What.PRINTED
    assert "DDP405" in rules


def test_saves_on_every_rank(mutant: Mutant) -> None:
    old = "    if rank == 0:\n        torch.save"
    what, _, text = first(mutant((old, "    if True:\n        torch.save")))
    assert what is What.FILE
    assert "written by 2 ranks" in text


def test_wrapped_keys(mutant: Mutant) -> None:
    what, _, text = first(mutant(("model.module.state_dict()", "model.state_dict()")))
    assert what is What.FILE
    assert "wrapper's keys" in text


def test_parameters_leave_one_another(mutant: Mutant) -> None:
    edit = "            if rank == 1:\n                model.module[0].bias.data.add_(1e-4)\n"
    what, rules, text = first(mutant((STEP, STEP + edit)))
    assert what is What.BETWEEN
    assert "DDP407" in rules
    assert "step 2: 0.bias differs between the ranks" in text


def test_the_last_rank_is_read_too(mutant: Mutant) -> None:
    edit = "            if rank == 2:\n                model.module[0].bias.data.add_(1e-4)\n"
    verdict = mutant((STEP, STEP + edit), nproc=(3,))
    what, _, text = first(verdict)
    assert what is What.BETWEEN
    assert verdict.comparisons[0].differences[0].rank == 2, text


def test_not_wrapped(mutant: Mutant) -> None:
    what, rules, _ = first(mutant(("criterion(model(x), y)", "criterion(model.module(x), y)")))
    assert what in (What.LOSS, What.GRADIENT)
    assert "DDP303" in rules


def test_other_order_is_a_named_cause(mutant: Mutant) -> None:
    other = ("shuffle=True", "shuffle=True, generator=torch.Generator().manual_seed(5)")
    verdict = mutant(other)
    assert verdict.kind is Kind.EXCEPT, render(verdict)
    assert [cause.name for cause in verdict.named] == ["order"]
    assert verdict.exit_code == 1
    comparison = verdict.comparisons[0]
    assert (comparison.same_data, comparison.same_arithmetic) == (False, True)
    assert comparison.replayed
    assert mutant(other, allow=["order"]).exit_code == 0


def test_fewer_steps(mutant: Mutant) -> None:
    what, _, text = first(mutant(("for epoch in range(2)", "for epoch in range(1)")))
    assert what is What.STEPS
    assert "rank 0 makes 7 steps" in text


def test_one_rank_stops_early(mutant: Mutant) -> None:
    what, rules, text = first(
        mutant((STEP, STEP + "            if rank == 1:\n                return\n"))
    )
    assert what is What.HANG
    assert "DDP402" in rules
    assert "rank 0 waits at mutant.py:" in text
    assert "for rank 1, which has ended" in text


def test_deadlock(mutant: Mutant) -> None:
    edit = "            if rank == 0:\n                dist.recv(torch.zeros(1), src=1)\n"
    start = time.monotonic()
    what, _, text = first(mutant((STEP, STEP + edit), stall=2.0))
    assert time.monotonic() - start < 45  # the run's own limit is 60
    assert what is What.HANG
    assert "rank 0 waits at mutant.py:32 (in recv)" in text
    assert "rank 1 waits at mutant.py:27 (in " in text


def test_crash_on_one_rank(mutant: Mutant) -> None:
    edit = '            if rank == 1:\n                raise ValueError("no luck")\n'
    verdict = mutant((STEP, STEP + edit))
    assert verdict.kind is Kind.COULD_NOT_RUN
    assert verdict.exit_code == 2
    text = render(verdict)
    assert "rank 1 ended with status 1" in text
    assert "ValueError: no luck" in text
    assert 'File "mutant.py", line 32' in text
