"""Rows that are broadcast against themselves, where nobody knows how many dimensions they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.known_forms import of_unknown_dimensions, script

CROSSWISE = [
    "d = h.unsqueeze(1) - h\nh = h + d.abs().mean() + (h[:, None] == h).sum()",
    "x = h.unsqueeze(0).transpose(0, 1)\nh = h + (x - h).abs().mean()",
    "w = labels.to(h)\nd = w[:, None] - w\nh = h + d.abs().mean()",
    "w = labels.to(h)\nd = w.view(-1, 1) - w\nh = h + d.abs().mean()",
    "w = labels.to(h)\nd = w - w.reshape(-1, 1)\nh = h + d.abs().mean()",
    "f = h.flatten(1)\nd = f.sum(1, keepdim=True) - f.sum(1)\nh = h + d.abs().mean()",
]
OF_MATRICES = [
    "d = h.norm(dim=-1, keepdim=True) * h.norm(dim=-1)\nh = h + d.mean()",
    "d = torch.maximum(h.amax(-1, keepdim=True), h[..., 0])\nh = h + d.mean()",
    "d = F.mse_loss(h.sum(-1, keepdim=True), h.sum(-1))\nh = h + d",
]


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [
        *((lines, (3, 4)) for lines in CROSSWISE),
        *((lines, (4,)) for lines in (*CROSSWISE, *OF_MATRICES)),
    ],
)
def test_each_row_meets_all_rows(trial: Trial, lines: str, sizes: tuple[int, ...]) -> None:
    verdict = trial.verdict(of_unknown_dimensions(lines, *sizes))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_with_the_same_dimensions_stay_apart(trial: Trial) -> None:
    lines = "w = h.unsqueeze(1).mean(1) + h * h.detach()\nh = w - h[:, None].squeeze(1)"
    verdict = trial.verdict(of_unknown_dimensions(lines, 3, 4))
    assert verdict.outcome is Outcome.SAME, verdict.detail


OF_TWO_SOURCES = [
    "h = h + (h[:, :1] - inputs[:, 0]).mean() + (h.narrow(1, 0, 1) * inputs.select(1, 1)).mean()",
    "a, b = h.split(1, dim=1)[0], h.topk(1, dim=1)[0]\nh = h + ((a + b) * inputs[:, 0]).mean()",
    "a = h.sum(1, True)\nh = h + (a * inputs.mean(1)).mean()",
    "i = labels[:, None]\nh = h + (h.gather(1, i) > inputs[:, 0]).to(h).mean()",
    "a, b = h.mean(1), inputs.mean(1)\nh = h + (a.view(-1, 1) - b).abs().mean()",
    "a, b = h.amax(-1), inputs[:, 0]\nh = h + (a[:, None] > b).to(h).mean()",
    "v = h.norm(dim=1, keepdim=True)\nh = h + torch.maximum(v * 2, inputs.norm(dim=1)).mean()",
    "a, b = h.mean(1), inputs.mean(1)\nh = h + F.l1_loss(a.unsqueeze(-1), b)",
]


@pytest.mark.parametrize("lines", OF_TWO_SOURCES)
def test_a_column_of_one_source_meets_all_rows_of_another(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(of_unknown_dimensions(lines, 4))
    assert verdict.outcome is Outcome.SAME, verdict.detail


ALIKE = [
    "guess == kinds.view_as(guess)",
    "guess.eq(kinds.data.view_as(guess))",
    "guess == kinds.view(guess.shape)",
    "guess == kinds.unsqueeze(1)",
    "guess.view(-1) == kinds",
]


@pytest.mark.parametrize("right", ALIKE)
def test_columns_beside_columns_stay_apart(tmp_path: Path, right: str) -> None:
    lines = "guess = out.argmax(dim=1, keepdim=True)\nkinds = labels.to('cpu')\n"
    path = tmp_path / "script.py"
    path.write_text(script("loop", f"{lines}right = ({right}).sum().item()\nprint(right)"))
    made = convert_file(path).data.decode()
    assert f"right = dd.sum(({right}).sum()).item()" in made
