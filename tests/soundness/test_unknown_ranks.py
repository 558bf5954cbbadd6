"""Rows that are broadcast against themselves, where nobody knows how many dimensions they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.divided import assert_same_without_gathering
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


OF_STEPS = [
    "nn.Linear(4, 1)(torch.stack([out, out * 2], 1))[:, -1]",
    "nn.Linear(4, 1)(torch.stack([out, out * 2], 1)).select(1, 0)",
    "nn.Linear(4, 1)(nn.GRU(4, 4, batch_first=True)(out[:, None])[0])[:, -1]",
]


@pytest.mark.parametrize("left", OF_STEPS)
def test_a_column_of_one_time_step_meets_all_rows(trial: Trial, left: str) -> None:
    text = script("loop", f"loss = loss + F.mse_loss({left}, targets[:, 0])")
    verdict = trial.verdict(text)
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


ONE_WIDE = [
    "r = F.smooth_l1_loss(a @ torch.ones(4, 1), b.mean(1))",
    "r = (torch.matmul(a, torch.full((4, 1), 0.5)) - b.mean(1)).pow(2).mean()",
    "r = (torch.stack([a[:, 0]], -1) - b[:, 0]).pow(2).mean()",
    "r = (torch.cat([a[:, :1]]) - b[:, 0]).pow(2).mean()",
    "r = (a[:, [0]] - b.select(1, 0)).pow(2).mean()",
    "r = (F.adaptive_avg_pool1d(a, 1) - b.mean(1)).abs().mean()",
    "r = (torch.linalg.norm(a, None, 1, True) * a.std(1, True, True) - b[:, 1]).abs().mean()",
]


@pytest.mark.parametrize("lines", ONE_WIDE)
@pytest.mark.parametrize(
    ("place", "around"),
    [
        ("loop", "a, b = out, targets\nLINES\nloss = loss + r"),
        ("forward", "a, b = h, inputs\nLINES\nh = h * (1 + r)"),
    ],
)
def test_what_is_made_one_wide_meets_all_rows(
    trial: Trial, place: str, around: str, lines: str
) -> None:
    text = of_unknown_dimensions(around.replace("LINES", lines), 4, place=place)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


OF_LAYERS = [
    "nn.Sequential(nn.Linear(4, 1), nn.Tanh())(out)",
    "torch.sigmoid(nn.Linear(4, out_features=1)(out))",
    "nn.Bilinear(4, 4, 1)(out, out)",
    "nn.Embedding(4, 1)(labels)",
]


@pytest.mark.parametrize("left", OF_LAYERS)
def test_a_layer_of_one_output_makes_a_column(trial: Trial, left: str) -> None:
    lines = f"loss = loss + F.mse_loss({left}, targets.mean(1))"
    verdict = trial.verdict(of_unknown_dimensions(lines, 4, place="loop"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("right", ["targets", "targets[:, :1]", "targets.mean(1).unsqueeze(1)"])
def test_one_output_beside_what_may_be_one_wide_as_well_stays_apart(
    tmp_path: Path, right: str
) -> None:
    path = tmp_path / "script.py"
    lines = f"loss = F.mse_loss(nn.Linear(4, 1)(out), {right})"
    path.write_text(of_unknown_dimensions(lines, 4, place="loop"))
    assert f"loss = dd.mean({lines.removeprefix('loss = ')})" in convert_file(path).data.decode()


KNOWN = [
    "k = torch.zeros_like(q)\nk[..., 0::2] = q[..., 1::2]",
    "k = torch.full_like(q, 2.0) * q",
    "k = q.repeat_interleave(1, dim=1)",
    "k = torch.repeat_interleave(q, 1, 1)",
]


@pytest.mark.parametrize("line", KNOWN)
def test_rows_of_as_many_dimensions_as_others_stay_divided(
    trial: Trial, tmp_path: Path, line: str
) -> None:
    lines = f"q = h.view(h.size(0), 1, 2, -1)\n{line}\ns = q @ k.transpose(-2, -1)"
    text = script("forward", f"{lines}\nh = h + s.flatten(1).sum(1)[:, None]")
    assert_same_without_gathering(trial, tmp_path, text)
