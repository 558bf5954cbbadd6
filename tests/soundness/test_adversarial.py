"""Perturbations of samples, by gradients of a batch's loss: kept over batches, or restarted."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
size = 8
data = TensorDataset(torch.rand(22, 3, 4, 4), torch.arange(22) % 5)
loader = DataLoader(data, batch_size=size, shuffle=True)
low, high = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
far = torch.tensor([0.1, 0.12, 0.08]).view(3, 1, 1)


def clamp(x, least, most):
    return torch.max(torch.min(x, most), least)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.body(x))).mean((2, 3)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
"""
STEP = """\
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x + shift), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
STEP_OF_FIRST = STEP.replace("+ shift", "+ shift[: len(x)]")
RANDOM_START = """\
for epoch in range(2):
    for x, y in loader:
        shift = torch.zeros_like(x)
        for i in range(len(far)):
            shift[:, i].uniform_(-far[i][0][0].item(), far[i][0][0].item())
        shift.data = clamp(shift, low - x, high - x)
        shift.requires_grad = True
        F.cross_entropy(net(x + shift[: x.size(0)]), y).backward()
        slope = shift.grad.detach()
        shift.data = clamp(shift + 1.25 * far * torch.sign(slope), -far, far)
        shift.data[: x.size(0)] = clamp(shift[: x.size(0)], low - x, high - x)
        shift = shift.detach()
"""
PREVIOUS = """\
shift = torch.zeros(size, 3, 4, 4)
for epoch in range(2):
    for x, y in loader:
        shift.requires_grad = True
        F.cross_entropy(net(x + shift[: len(x)]), y).backward()
        slope = shift.grad.detach()
        shift.data = clamp(shift + {}, -far, far)
        shift.data[: len(x)] = clamp(shift[: len(x)], low - x, high - x)
        shift = shift.detach()
"""
REPLAYED = """\
shift = torch.zeros(size, 3, 4, 4)
shift.requires_grad = True
for epoch in range(2):
    for x, y in loader:
        for _ in range(3):
            loss = F.cross_entropy(net(x + shift[: x.size(0)]), y)
            optimizer.zero_grad()
            loss.backward()
            slope = shift.grad.detach()
            shift.data = clamp(shift + far * torch.sign(slope), -far, far)
            shift.data[: x.size(0)] = clamp(shift[: x.size(0)], low - x, high - x)
            optimizer.step()
            shift.grad.zero_()
        print(loss.item())
"""
RESTARTED = """\
def attack(x, y):
    worst, best = torch.zeros(y.shape[0]), torch.zeros_like(x)
    for _ in range(2):
        shift = torch.zeros_like(x).uniform_(-0.1, 0.1)
        shift.data = clamp(shift, low - x, high - x)
        shift.requires_grad = True
        for _ in range(2):
            out = net(x + shift)
            index = torch.where(out.max(1)[1] == y)
            if len(index[0]) == 0:
                break
            F.cross_entropy(out, y).backward()
            slope = shift.grad.detach()[index[0], :, :, :]
            moved = shift[index[0], :, :, :]
            moved = clamp(moved + far / 3 * torch.sign(slope), -far, far)
            shift.data[index[0], :, :, :] = clamp(moved, low - x[index[0]], high - x[index[0]])
            shift.grad.zero_()
        costs = F.cross_entropy(net(x + shift), y, reduction="none").detach()
        best[costs >= worst] = shift.detach()[costs >= worst]
        worst = torch.max(worst, costs)
    return best


for epoch in range(2):
    for x, y in loader:
        shift = attack(x, y)
"""
UNIVERSAL = """\
shift = torch.zeros(3, 4, 4, requires_grad=True)
for epoch in range(2):
    for x, y in loader:
        F.cross_entropy(net(x + shift), y).backward()
        shift.data = shift.data + 0.1 * shift.grad / shift.grad.norm()
        shift.grad = None
"""
VIRTUAL = """\
def normalised(d):
    flat = d.view(d.shape[0], -1, *(1 for _ in range(d.dim() - 2)))
    return d.div_(flat.norm(dim=1, keepdim=True))


for epoch in range(2):
    for x, y in loader:
        with torch.no_grad():
            wanted = F.softmax(net(x), 1)
        d = normalised(torch.rand(x.shape).sub(0.5).to(x.device))
        for _ in range(2):
            d.requires_grad_()
            F.kl_div(F.log_softmax(net(x + d), 1), wanted, reduction="batchmean").backward()
            d = normalised(d.grad)
            net.zero_grad()
        shift = 0.5 * d
"""
TRAINED = """\
kl = nn.KLDivLoss(reduction="sum")
for epoch in range(2):
    for x, y in loader:
        net.eval()
        shift = (0.001 * torch.randn(x.shape)).requires_grad_()
        own = torch.optim.SGD([shift], lr=0.1)
        for _ in range(2):
            own.zero_grad()
            loss = -1 * kl(F.log_softmax(net(x + shift), 1), F.softmax(net(x), 1))
            loss.backward()
            norms = shift.grad.view(len(x), -1).norm(p=2, dim=1)
            shift.grad.div_(norms.view(-1, 1, 1, 1))
            if (norms == 0).any():
                shift.grad[norms == 0] = torch.randn_like(shift.grad[norms == 0])
            own.step()
            shift.data.add_(x)
            shift.data.clamp_(0, 1).sub_(x)
            shift.data.renorm_(p=2, dim=0, maxnorm=0.5)
        shift = shift.detach()
        net.train()
"""
SCRIPTS = {
    "a random start": RANDOM_START + STEP,
    "the perturbation of the batch before": PREVIOUS.format("0.1 * slope.sign()") + STEP_OF_FIRST,
    "of which the size of the gradient counts": PREVIOUS.format("slope") + STEP_OF_FIRST,
    "steps of the model and the perturbation": REPLAYED,
    "restarts": RESTARTED + STEP,
    "one perturbation for all samples": UNIVERSAL + STEP,
    "a direction of most change": VIRTUAL + STEP,
    "an optimizer for the perturbation": TRAINED + STEP,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_trains_as_one_process_does(trial: Trial, name: str) -> None:
    verdict = trial.verdict(HEAD + SCRIPTS[name])
    assert verdict.outcome is Outcome.SAME, verdict.detail
