"""What a program keeps as an attribute of a tensor."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SET = [
    ("targets.mean_row = targets.mean(0)", "targets.mean_row"),
    ("setattr(targets, 'mean_row', targets.mean(0))", "getattr(targets, 'mean_row')"),
    ("targets.a, out.a = targets.mean(0), out.mean(0)", "(targets.a + out.a)"),
    ("targets.both = (targets.mean(0), targets.sum(0))", "targets.both[1]"),
    ("targets.parts = {'mean': targets.mean(0)}", "targets.parts['mean']"),
    ("targets.pair = (targets, targets.mean(0))", "targets.pair[1]"),
    ("targets.number = len(targets)", "targets.number"),
    ("targets.first = targets[0]", "targets.first"),
    ("out.mean_row = out.mean(0)", "out.mean_row"),
    ("loss.part = targets.mean()", "loss.part"),
    ("z = targets * 2\nz.total = 0.5\nz.total += targets.mean()", "z.total"),
    ("model.weight.seen = targets.mean(0)", "model.weight.seen"),
    ("for p in model.parameters():\n    p.seen = targets.mean()", "model.bias.seen"),
    ("table = torch.zeros(4)\ntable.row = targets.mean(0)", "table.row"),
    ("targets.__dict__.update(row=targets.mean(0))", "targets.row"),
    ("targets.__dict__.update({'row': targets.mean(0)})", "targets.row"),
    ("kept = {'row': targets.mean(0)}\nvars(targets).update(kept)", "targets.row"),
    ("targets.__dict__.setdefault('row', targets.mean(0))", "targets.row"),
    ("vars(targets).__setitem__('row', targets.mean(0))", "targets.row"),
    ("for n, v in {'row': targets.mean(0)}.items():\n    setattr(targets, n, v)", "targets.row"),
    ("for n, v in [('row', targets.mean(0))]:\n    vars(targets)[n] = v", "targets.row"),
    ("a = np.zeros(4).view(np.recarray)\na.row = targets.mean(0)", "a.row"),
]


@pytest.mark.parametrize(("line", "read"), SET)
def test_it_is_that_of_all_rows(trial: Trial, line: str, read: str) -> None:
    text = script("loop", f"{line}\nloss = loss * (1 + 0.1 * (inputs * {read}).mean())")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


FORWARD = [
    "vars(h).update(row=h.mean(0))\nh = h - h.row",
    "for n in ['row']:\n    setattr(h, n, h.mean(0))\nh = h - h.row",
    "h.mean_row = h.mean(0)\nh = h - h.mean_row",
    "h.number = len(h)\nh = h / h.number",
]


@pytest.mark.parametrize("lines", [*FORWARD, "self.table.row = h.mean(0)\nh = h + self.table.row"])
def test_so_it_is_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_of_a_batch_with_rows_stay_a_ranks_own(trial: Trial) -> None:
    text = script("loop", "out.goals = targets\nloss = loss + F.l1_loss(out, out.goals)")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert "dd.gather" not in converted
