"""Series that a loader of the script's own shuffles, cuts and yields, padded before the model."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
np.random.seed(0)

class Loader:
    def __init__(self, xs, ys, batch_size):
        self.batch_size = batch_size
        self.current_ind = 0
        n = (batch_size - (len(xs) % batch_size)) % batch_size
        xs = np.concatenate([xs, np.repeat(xs[-1:], n, axis=0)], axis=0)
        ys = np.concatenate([ys, np.repeat(ys[-1:], n, axis=0)], axis=0)
        self.size = len(xs)
        self.num_batch = int(self.size // self.batch_size)
        self.xs, self.ys = xs, ys
    def shuffle(self):
        p = np.random.permutation(self.size)
        self.xs, self.ys = self.xs[p], self.ys[p]
    def get_iterator(self):
        self.current_ind = 0
        def _wrapper():
            while self.current_ind < self.num_batch:
                s = self.batch_size * self.current_ind
                e = min(self.size, self.batch_size * (self.current_ind + 1))
                yield (self.xs[s:e, ...], self.ys[s:e, ...])
                self.current_ind += 1
        return _wrapper()
data = {}
for c in ['train', 'val']:
    data['x_' + c] = np.random.randn(23, 6, 3, 2); data['y_' + c] = np.random.randn(23, 4, 3, 2)
for c in ['train', 'val']:
    data[c + '_loader'] = Loader(data['x_' + c], data['y_' + c], 5)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(2, 4, (1, 3)); self.e = nn.Conv2d(4, 4, (1, 1))
    def forward(self, x):
        h = torch.relu(self.c(x))
        return self.e(h.mean(3, keepdim=True))
net = Net(); opt = torch.optim.Adam(net.parameters(), 1e-2)

def masked_mae(p, r, null=0.0):
    mask = (r != null).to(p)
    mask /= torch.mean(mask)
    mask = torch.where(torch.isnan(mask), torch.zeros_like(mask), mask)
    l = torch.abs(p - r) * mask
    l = torch.where(torch.isnan(l), torch.zeros_like(l), l)
    return torch.mean(l)
class Engine:
    def __init__(self): self.m, self.o = net, opt
    def train(self, x, r):
        self.m.train(); self.o.zero_grad()
        x = F.pad(x, PADDED)
        out = self.m(x).transpose(1, 3)
        real = torch.unsqueeze(r, dim=1)
        loss = masked_mae(out * 2.0 + 0.1, real, 0.0)
        loss.backward(); nn.utils.clip_grad_norm_(self.m.parameters(), 5); self.o.step()
        return loss.item()
    def eval(self, x, r):
        self.m.eval()
        x = F.pad(x, PADDED)
        out = self.m(x).transpose(1, 3)
        real = torch.unsqueeze(r, dim=1)
        return masked_mae(out * 2.0 + 0.1, real, 0.0).item()
e = Engine()
for ep in range(2):
    data['train_loader'].shuffle()
    tot, va = [], []
    for it, (x, y) in enumerate(data['train_loader'].get_iterator()):
        x = torch.Tensor(x).transpose(1, 3); y = torch.Tensor(y).transpose(1, 3)
        tot.append(e.train(x, y[:, 0, :, :]))
    for it, (x, y) in enumerate(data['val_loader'].get_iterator()):
        x = torch.Tensor(x).transpose(1, 3); y = torch.Tensor(y).transpose(1, 3)
        va.append(e.eval(x, y[:, 0, :, :]))
    print(ep, np.mean(tot), np.mean(va))
"""
# Where nothing is added, zeros are written for it or left out.
PADDED = ["(1, 0)", "(1, 0, 0, 0)", "[1, 0, 0, 0, 0, 0]", "pad=(1, 0, 0, 0)"]


@pytest.mark.parametrize("padded", PADDED)
def test_each_rank_pads_its_own(trial: Trial, padded: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("PADDED", padded))
    assert verdict.outcome is Outcome.SAME, verdict.detail
