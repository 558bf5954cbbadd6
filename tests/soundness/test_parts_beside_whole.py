"""A rank's rows or sums where what all ranks hold may come instead."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "r = [out, torch.ones(4)][epoch].sum()",
    "r = torch.ones(4) if epoch else out\nr = r.sum()",
    "r = 0.5 if epoch else out.sum()",
    "r = 0.5\nif epoch:\n    r = out.sum()",
    "loss = loss + (eval('0.5') if epoch else out.sum())\nr = 0.0",
    "r = out if epoch else None\nr = r.sum() if r is not None else 0",
    "r = out if epoch else None\nr = r[:, 0].sum() if r is not None else 0.5",
    "r = 1 / (torch.ones(4) if epoch else out).numel()",
    "r = sum(v.sum() for v in (out, torch.ones(4)))",
    "r = sum({'a': out.sum(), 'b': torch.tensor(2.0)}.values())",
]


BESIDE_REDUCED = [
    "r = [out, targets.logsumexp(0)][-1].sum()",
    "r = [v for v in (out, targets.logsumexp(0))][-1].sum()",
    "r = (out, targets.logsumexp(0))[epoch].sum()",
    "r = list({'a': out, 'b': targets.logsumexp(0)}.values())[-1].sum()",
    "for r in (out, targets.logsumexp(0)):\n    pass\nr = r.sum()",
    "r = sum(v.sum() for v in (out, targets.amax(0)))",
    "r = 1 / len([v for v in (out, targets.amax(0))][-1])",
    "r = (targets.amax(0) if epoch else out.sum(0)).sum()",
]
BESIDE_TENSORS = [
    "r = (torch.ones(24, 4) if epoch else out).norm()",
    "r = model.weight if epoch else out\nr = r.norm()",
    "r = sum(v.norm() for v in (model.weight, out))",
    "def f(v):\n    return v.norm()\nr = f(torch.ones(24, 4)) + f(out)",
    "def f(v):\n    return v.norm()\nr = f(model.weight)\nr = r + f(out)",
    "def f(v):\n    return v.norm()\nr = sum(f(v) for v in [torch.ones(24, 4), out])",
    "r = torch.ones(24, 4)\nif epoch:\n    r = out\nr = 1 / len(r)",
    "r = torch.ones(24, 4)\nif epoch:\n    r = out\nr = 1 / r.shape[0]",
    "r = torch.ones(24, 4)\nif epoch:\n    r = out\nn, c = r.shape\nr = c / n",
    "r = torch.ones(24, 4)\nif epoch:\n    r = out\nprint(r.median().item())\nr = 0",
]
BESIDE_WHAT_IS_NOT_UNDERSTOOD = [
    "r = (eval('0.5') if epoch else out.sum()) * 2",
    "r = eval('0.5')\nif epoch:\n    r = out.sum()\nr = r * 2",
    "r = eval('torch.ones(24, 4)')\nif epoch:\n    r = out\nr = r.norm()",
    "def f(c):\n    return eval('0.5') if c else out.sum()\nr = f(epoch) * 2",
    "def f(c):\n    if c:\n        return eval('0.5')\n    return out.sum()\nr = f(epoch) * 2",
    "r = [eval('0.5'), out.sum()][epoch] * 2",
    "r = sum({0: eval('0.5'), 1: out.sum()}.values())",
    "import json\nr = [json.loads('0.5'), out.sum()][epoch] * 2",
]
IN_FORWARDS = [
    "for r in (h, torch.ones(8)):\n    h = h + 0.1 * r.sum()",
    "for r in (h, h.logsumexp(0)):\n    h = h + 0.1 * r.sum()",
    "r = [v for v in (h, h.logsumexp(0))][-1]\nh = h + 0.1 * r.numel()",
    "h = h + sum(0.1 * r.norm() for r in (self.body.weight, h))",
]
# Of ``k``, whose number of dimensions is not known, ``transpose(-2, -1)`` takes those of all ranks.
WHOLE = """\
q = h.view(-1, 2, h.shape[-1] // 2)
k = h.view(-1, h.shape[-1] // 2, 2).repeat_interleave(1, dim=1).transpose(-2, -1)
"""
BESIDE_ALL_ROWS = [
    "s = torch.matmul(q, k.transpose(1, 2)).flatten(1).sum(1)",
    "s = torch.matmul(k, q.transpose(1, 2)).flatten(1).sum(1)",
    "s = torch.bmm(q, k.transpose(1, 2)).flatten(1).sum(1)",
    "s = torch.baddbmm(q[:, :, :2], q, k.transpose(1, 2)).flatten(1).sum(1)",
    "s = torch.einsum('bij,bkj->bik', q, k).flatten(1).sum(1)",
    "s = torch.cdist(q, k).flatten(1).sum(1)",
    "s = F.scaled_dot_product_attention(q, k, k).flatten(1).sum(1)",
    "s = torch.linalg.solve(torch.eye(2) + 0.1 * q @ q.mT, k).flatten(1).sum(1)",
    "s = F.mse_loss(q, k, reduction='none').flatten(1).sum(1)",
]


@pytest.mark.parametrize(
    "line", LINES + BESIDE_REDUCED + BESIDE_TENSORS + BESIDE_WHAT_IS_NOT_UNDERSTOOD
)
def test_the_part_is_made_whole_before_they_meet(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("loop", f"{line}\nloss = loss + 0.01 * r"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", IN_FORWARDS)
def test_so_it_is_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("line", BESIDE_ALL_ROWS)
def test_a_function_of_a_ranks_rows_and_all_rows_gets_all(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("forward", f"{WHOLE}{line}\nh = h + s[:, None]"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
