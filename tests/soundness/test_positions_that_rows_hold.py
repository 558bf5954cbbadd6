"""Rows that others pick by numbers which they hold: positions among the samples of all ranks.

A mask's own positions, and the numbers that a collate function gives its samples, are a rank's.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

EACH = "i = labels * 0\n"
SOME = "i = (labels * 0)[labels > 0]\n"
LINES = [
    EACH + "r = out[i] * targets",
    EACH + "r = out[i, 0] * targets[:, 0]",
    EACH + "r = out[i, labels] * targets[:, 0]",
    EACH + "r = out[:, None][i, 0] * targets",
    EACH + "z = torch.cat([out, out * 2])\nr = z[i] * targets",
    EACH + "z = torch.zeros(len(out))\nz[i] = 1.0\nr = out * z[:, None]",
    SOME + "r = out[i]",
    SOME + "r = out[i, 0]",
    SOME + "r = (out[i] - 1) ** 2",
    SOME + "r = out.index_select(0, i)",
    SOME + "r = torch.index_select(out, 0, i)",
    SOME + "r = out.take_along_dim(i[:, None].expand(-1, 4), 0)",
    SOME + "r = torch.gather(out, 0, i[:, None].expand(-1, 4))",
    SOME + "z = torch.zeros(len(out))\nz[i] = 1.0\nr = out * z[:, None]",
    "i = torch.masked_select(labels * 0, labels > 0)\nr = (out[i] - 1) ** 2",
    "m = labels > 0\ni = m.nonzero()[:, 0]\ni = i[targets[i, 0] > 0]\nr = out[i]",
    "m = labels > 0\nr = out[m, labels[m]]",
    "m = labels > 0\nz, c = out[m], labels[m]\nr = z[range(len(c)), c]",
    "m = labels > 0\nz, c = out[m], labels[m]\nt = torch.zeros_like(z)\n"
    "t[range(len(c)), c] = 1\nr = (z - t) ** 2",
    "m = labels > 0\ni = torch.arange(len(out))[m]\nr = out[i]",
]
FORWARDS = [
    "i = (h[:, 0] > 5).long()\nh = h + h[i, 0].unsqueeze(1)",
    "i = (h[:, 0] > 5).long()[inputs[:, 0] > 0]\nh = h + h[i].sum()",
]


@pytest.mark.parametrize("lines", LINES)
def test_they_are_taken_of_all_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + r.mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", FORWARDS)
def test_so_they_are_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


BOXES = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
features = torch.randn(23, 6)


class Boxes(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, i):
        boxes = torch.zeros(i % 3 + 1, 6)
        boxes[:, 1] = torch.arange(len(boxes)) % 2
        boxes[:, 2:] = torch.sigmoid(features[: len(boxes), :4] + i)
        return features[i], boxes


def collate(batch):
    x, boxes = zip(*batch)
    for i, one in enumerate(boxes):
        one[:, 0] = i
    return torch.stack(x), torch.cat(boxes, 0)


model = nn.Linear(6, 3 * 7)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Boxes(), batch_size=6, shuffle=True, collate_fn=collate)
for epoch in range(2):
    for x, boxes in loader:
        predicted = model(x).view(x.shape[0], 3, 7)
        image, anchor = boxes[:, 0].long(), (boxes[:, 4] * 3).long().clamp(max=2)
        found = torch.zeros(predicted.shape[0], 3)
        own = predicted[image, anchor]
        place = (torch.sigmoid(own[:, :4]) - boxes[:, 2:]).pow(2).mean()
        found[image, anchor] = WRITTEN
        kind = F.one_hot(boxes[:, 1].long(), 2).to(own.dtype)
        loss = place + F.binary_cross_entropy_with_logits(own[:, 5:], kind)
        loss = loss + F.binary_cross_entropy_with_logits(predicted[..., 4], found)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize("written", ["1.0", "torch.sigmoid(own[:, 0]).detach()"])
def test_numbers_of_samples_are_written_at(trial: Trial, written: str) -> None:
    verdict = trial.verdict(BOXES.replace("WRITTEN", written))
    assert verdict.outcome is Outcome.SAME, verdict.detail
