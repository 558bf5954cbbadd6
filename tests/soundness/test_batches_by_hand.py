"""Batches that are made by hand, beside arrays, indices and lists that are not split yet."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_BEFORE = "kinds = torch.arange(10) % 4\nk = kinds[rows]\nr = torch.zeros(())\n"
INDICES = [
    "r = -out.log_softmax(1)[torch.arange(len(inputs)), k]",
    "r = -out.log_softmax(1)[range(len(inputs)), k]",
    "w = torch.zeros_like(out)\nw[torch.arange(len(k)), k] = 1\nr = out * w",
    "w = np.zeros((len(inputs), 4))\nw[np.arange(len(inputs)), k.numpy()] = 1\n"
    "r = out * torch.from_numpy(w).to(out)",
    "w = np.take_along_axis(out.detach().numpy(), k.numpy()[:, None], 1)\n"
    "r = out * torch.from_numpy(w)",
]
IN_A_LINE = [
    "best = out.topk(3, 1)[1].t()\nprint(best.eq(k.view(1, -1).expand_as(best)).sum().item())",
    "best = out.topk(3, 1)[1]\nprint(best.t().eq(k.reshape(1, -1)).any(0).sum().item())",
    "print((out.topk(2, 1)[1].transpose(0, 1) == k).sum().item())",
]
LISTS = [
    "w = targets.sum(1).tolist()\nr = out.mean(1) * torch.tensor(w)",
    "w = [float(v) for v in targets.sum(1).tolist()]\nr = out.mean(1) * torch.tensor(w)",
]
OF_ALL = [
    "w = torch.rand(out.numel()).view_as(out)\nr = out * w",
    "bags = nn.EmbeddingBag(4, 4)\nr = out + bags(k, torch.arange(len(k)))",
]


@pytest.mark.parametrize("lines", [*INDICES, *IN_A_LINE, *LISTS, *OF_ALL])
def test_what_meets_rows_is_split_alike(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("by hand", _BEFORE + lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        ("loop", "w = torch.randn(out.numel()).reshape(out.shape)\nloss = (out * w).mean()"),
        ("loop", "w = torch.randint(0, 3, (out.numel(),)).view_as(out)\nloss = (out * w).mean()"),
        ("forward", "w = torch.rand(h.numel()).view_as(h)\nh = h * w"),
        (
            "loop",
            "bags = nn.EmbeddingBag(4, 4)\n"
            "loss = F.mse_loss(out + bags(labels, torch.arange(len(labels))), targets)",
        ),
    ],
)
def test_what_is_made_for_all_samples(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
