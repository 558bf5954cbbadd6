"""Several tensors under each other beside several rows for each sample, which lie in another order.

Beside each other they stand in the whole batch only.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

BY_PLACE = [
    "z = torch.cat([out, out * 2])",
    "z = out.repeat(2, 1)",
    "z = torch.stack([out, out * 2]).view(-1, 4)",
    "z = out[None].expand(2, -1, -1).reshape(-1, 4)",
]
BY_SAMPLE = [
    "w = targets.repeat_interleave(2, 0)",
    "w = torch.stack([targets, targets], 1).view(-1, 4)",
    "w = targets[:, None].repeat(1, 2, 1).flatten(0, 1)",
]
TOGETHER = [
    "r = F.mse_loss(z, w)",
    "r = F.smooth_l1_loss(z, w, reduction='none').mean(1)",
    "r = F.triplet_margin_loss(z, w, w.flip(1))",
    "r = F.cosine_similarity(z, w)",
    "r = torch.where(z > w, z, w)",
    "r = (z * w).sum(1).masked_fill(w[:, 1] > 0, 0)",
    "r = torch.stack([a * b for a, b in zip(z, w)])",
    "r = torch.einsum('bi,bi->b', z, w)",
    "r = torch.bmm(z[:, None], w[:, :, None])",
    "r = z.t() @ w",
    "r = z[w[:, 0] > 0]",
    "r = z[torch.arange(len(z)), (w[:, 0] > 0).long()]",
    "r = torch.zeros_like(w)\nr[w > 0] = z[w > 0]",
    "z = z * 1\nz -= w\nr = z**2",
]
PLACES = pytest.mark.parametrize("place", ["loop", "forward"])


def _judge(trial: Trial, place: str, lines: str) -> None:
    if place == "forward":
        lines = lines.replace("out", "h").replace("targets", "inputs") + "\nh = h + r.mean()"
    else:
        lines += "\nloss = loss + r.mean()"
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@PLACES
@pytest.mark.parametrize("by_sample", BY_SAMPLE)
@pytest.mark.parametrize("by_place", BY_PLACE)
def test_rows_in_two_orders(trial: Trial, by_place: str, by_sample: str, place: str) -> None:
    _judge(trial, place, f"{by_place}\n{by_sample}\nr = (z - w) ** 2")


@PLACES
@pytest.mark.parametrize("together", TOGETHER)
def test_what_reads_them_together(trial: Trial, together: str, place: str) -> None:
    _judge(trial, place, f"{BY_PLACE[0]}\n{BY_SAMPLE[0]}\n{together}")


@pytest.mark.parametrize("place", ["loop", "forward"])
def test_columns_under_each_other(trial: Trial, place: str) -> None:
    _judge(trial, place, "z = out.reshape(-1)\nw = targets.t().reshape(-1)\nr = (z - w) ** 2")


def test_a_write_that_cannot_be_had_is_refused(trial: Trial) -> None:
    lines = f"{BY_PLACE[0]}\n{BY_SAMPLE[0]}\nw[z > 0] = 0\nloss = loss + (w * out.mean()).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail


@PLACES
def test_rows_in_one_order_stay_divided(trial: Trial, place: str) -> None:
    lines = "z = torch.cat([out, out])\nw = torch.cat([targets, targets])\nr = (z - w) ** 2"
    _judge(trial, place, lines)
    if place == "loop":
        text = script(place, f"{lines}\nloss = loss + r.mean()")
        assert "gather" not in str(trial.converted(text))


def test_what_unseen_code_leaves_where_it_is_stays_divided(trial: Trial) -> None:
    net = (
        "class Net(nn.Transformer):\n"
        "    def __init__(self):\n"
        "        super().__init__(4, 2, 1, 1, 8, 0.0)\n\n"
        "    def forward(self, words):\n"
        "        return self.encoder(words)\n\n\n"
    )
    text = script("loop", "loss = F.mse_loss(out.view(-1, 4), torch.cat([targets, targets * 2]))")
    text = text.replace("torch.manual_seed", net + "torch.manual_seed", 1)
    text = text.replace("nn.Linear(4, 4)", "Net()").replace("model(inputs)", "model(words)")
    text = text.replace("out = ", "words = torch.stack([inputs, inputs * 2])\n        out = ")
    text = text.replace("        loss = F.mse_loss(out, targets)\n", "")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    assert "gather" not in str(trial.converted(text))
