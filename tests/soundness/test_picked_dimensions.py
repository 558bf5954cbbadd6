"""Where the rows lie that an index takes of what all ranks hold, and parameters of layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.divided import assert_same_without_gathering
from tests.soundness.known_forms import script

TABLE = "t = torch.arange(24.0).view(6, 4) / 24\n"
CUBE = "t = torch.arange(96.0).view(6, 4, 4) / 96\n"
LOOPS = [
    f"{TABLE}r = t[:, labels].mean(1).pow(2).sum()",
    f"{TABLE}r = (t[:, labels].mean(0) * out[:, 0]).mean()",
    f"{TABLE}r = (t[:, labels].T[:, :4] * out).mean()",
    f"{TABLE}r = (t[1, labels] * out[:, 0]).mean()",
    f"{CUBE}r = (t[..., labels].softmax(-1).mean((0, 1)) * out[:, 0]).mean()",
    f"{CUBE}r = t[:, :, labels].sum(-1).mean() * out.mean()",
    f"{CUBE}r = (t[:, labels, labels].mean(0) * out[:, 0]).mean()",
    f"{CUBE}r = (t[labels, :, labels].mean(1) * out[:, 0]).mean()",
    f"{TABLE}r = t.index_select(1, labels).softmax(1).pow(2).sum()",
    f"{TABLE}r = t.index_select(-1, labels).softmax(1).pow(2).sum()",
    "r = (labels[None].double().softmax(-1).T * out).mean()",
    "r = (torch.stack([labels, labels]).double().softmax(-1)[0] * out[:, 0]).mean()",
    "r = (torch.eye(4)[labels].T.cumsum(-1).T * out).mean()",
    "r = torch.arange(4.0)[labels].softmax(-1).pow(2).sum()",
    "r = torch.tensor([0.3, 0.1, 0.2, 0.9])[labels].softmax(-1).pow(2).sum()",
    "r = torch.arange(12.0).view(4, 3)[labels, 0].softmax(-1).pow(2).sum()",
    "r = torch.bincount(labels, minlength=4)[labels].double().softmax(-1).pow(2).sum()",
    "r = model.bias[labels].softmax(-1).pow(2).sum()",
    "r = (model.bias.repeat(len(out), 1).softmax(0) - out).pow(2).mean()",
    "r = (model.bias.expand((len(out), 4)) - out).pow(2).mean()",
    "p = next(model.parameters())\nr = p.sum(1).repeat(len(out), 1).softmax(0).pow(2).sum()",
    "p = model._parameters['bias']\nr = (p.repeat(len(out), 1).cumsum(0) - out).pow(2).mean()",
    "r = (model.weight.T @ out.T).softmax(-1).pow(2).mean()",
    "a = torch.arange(12.0).view(3, 1, 4)\nr = (a + out).softmax(1).pow(2).mean()",
    "a = torch.ones(3, 1, 4)\nr = torch.maximum(a, out.view(-1, 4)).softmax(1).pow(2).mean()",
    "a = torch.arange(48.0).view(3, 4, 4) / 48\nr = torch.matmul(out, a).softmax(1).pow(2).mean()",
]
FORWARDS = [
    "s = self.body.bias.expand(h.shape[0], -1)\nh = h + s.cumsum(0)",
    "s = self.body.bias[None].repeat(len(h), 1)\nh = h + s.cumsum(0)",
    "s = self.body.bias.tile(h.size(0), 1)\nh = torch.cat([h, s], 1)[:, 2:6]",
    "s = self.body.weight[0, :1].expand(h.shape[0], 1)\nh = torch.cat([h, s], 1)[:, 1:]",
    "h = h + self.body.bias.new_ones(len(h), 4).cumsum(0)",
    "h = h + self.body.weight[:, h.argmax(1)].mean(1)",
    "h = h + self.body.weight.index_select(1, h.argmax(1)).mean(1)",
    f"{TABLE}h = h * (1 + t.index_select(1, h.argmax(1)).mean(-1).sum())",
    f"{TABLE}h = h + t.index_select(1, h.argmax(1)).softmax(-1).abs().max()",
    f"{TABLE}h = h / (1 + torch.index_select(t, 1, h.argmax(1)).mean(-1).numel())",
    "h = h + self.body.bias[h.argmax(1)].softmax(-1)[:, None]",
]
DIVIDED = [
    "r = (torch.eye(4)[labels].softmax(-1) * out).sum(-1).mean()",
    "r = (torch.rand(4, 4)[labels] - out).pow(2).sum(-1).mean()",
    "r = (torch.eye(4).index_select(0, labels).softmax(-1) * out).sum(-1).mean()",
    "r = (model.weight[labels] * out).sum(-1).mean()",
]


@pytest.mark.parametrize("lines", LOOPS)
def test_rows_are_where_the_index_puts_them(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + 0.1 * r"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", FORWARDS)
def test_so_they_are_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", DIVIDED)
def test_rows_of_matrices_stay_divided(trial: Trial, tmp_path: Path, lines: str) -> None:
    text = script("loop", f"{lines}\nloss = loss + 0.1 * r")
    assert_same_without_gathering(trial, tmp_path, text)
