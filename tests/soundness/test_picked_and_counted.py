"""Rows that tuples, counters and numbers of elements pick or make; targets that are no classes."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_WEIGHTS = "w = torch.tensor([1.0, 2.0, 0.5, 1.5])\n"
IN_FORWARD = [
    "h = h + torch.linspace(0, 1, h.numel()).view_as(h)",
    "h = h + (torch.arange(h.numel()).view(h.shape) / 100).to(h)",
    "i = (slice(None), 0)\nh = h + h[i][:, None]",
    "i = (..., 0)\nh = h + h[i][:, None]",
    "t = torch.arange(inputs.shape[0]) % 4\nh = h + self.head.weight[t]",
    "h = h + F.unfold(h[None, None], (3, 1), padding=(1, 0))[0].reshape(3, -1, 4).mean(0)",
]
IN_LOOP = [
    f"{_WEIGHTS}loss = F.cross_entropy(out, targets.softmax(1), weight=w)",
    f"{_WEIGHTS}loss = nn.CrossEntropyLoss(weight=w)(out, targets.softmax(1)) * 2",
    f"{_WEIGHTS}loss = nn.CrossEntropyLoss(weight=w)(out, labels)",
    "loss = loss + (out * torch.linspace(0, 1, out.numel()).view_as(out)).mean()",
    "layers = nn.ModuleList([nn.Softmax(0)])\nloss = loss + layers[0](out).pow(2).mean()",
]
# What two indices pick is one number for each sample: its last dimension is that of the samples.
IN_LOOP += [
    f"z = out[{places}, labels]\nloss = loss + 0.1 * ({made}).double().sum()"
    for places in ("range(len(out))", "torch.arange(out.size(0))")
    for made in ("torch.kthvalue(z, 1, -1)[0]", "z.max(-1)[0]", "z.logsumexp(-1)", "z.sort()[0][0]")
]
IN_FORWARD += [
    "z = h[torch.arange(len(h)), h.argmax(1)]\nh = h + z.std(-1, unbiased=False)",
    "z = h[torch.arange(len(h)), h.argmax(1)]\nh = h - z.softmax(-1)[:, None]",
]
IN_COLLATE = [
    "inputs = F.unfold(inputs[None, None], (3, 1), padding=(1, 0))[0].reshape(3, -1, 4).mean(0)",
]


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        *(("forward", one) for one in IN_FORWARD),
        *(("loop", one) for one in IN_LOOP),
        *(("collate", one) for one in IN_COLLATE),
    ],
)
def test_conversions_train_the_same_or_are_refused(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    refused = place == "collate" and verdict.outcome is Outcome.REFUSED
    assert refused or verdict.outcome is Outcome.SAME, verdict.detail
