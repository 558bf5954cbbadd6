"""Operators that mix samples, converted and run: in a forward and in the loop, at 2 and 3 ranks.

Batches of six samples do not divide among four, and the last batch has five. Each case trains in
float64; parameters after each step are compared with those of one process.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from ddpify.errors import DdpifyError

SCRIPT = """\
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples, kinds = torch.randn(17, 5), torch.randint(0, 3, (17,))
feed = DataLoader(TensorDataset(samples, kinds), batch_size=6, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        FORWARD
        return self.second(h)


net = Net()
rule = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for x, y in feed:
    rule.zero_grad()
    out = net(x)
    z = out
    LOOP
    loss = F.cross_entropy(out, y) + (z * out).mean()
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
"""

IN_FORWARD = [
    "h = torch.softmax(h, 0)",
    "h = F.softmax(h, dim=-2)",
    "h = nn.Softmax(0)(h)",
    "h = F.normalize(h, dim=0)",
    "h = h.unsqueeze(0).softmax(1).squeeze(0)",
    "h = h.T.softmax(1).T",
    "h = h - h.max()",
    "h = h - h.max(0)[0]",
    "h = h / h.norm()",
    "h = h * torch.linalg.vector_norm(h)",
    "h = h / h.norm(dim=0, keepdim=True)",
    "h = h - torch.logsumexp(h, 0)",
    "h = h * h.prod(0)",
    "h = (h - h.mean(0)) / (h.std(0) + 1)",
    "h = h + h[0]",
    "h = h + h[-1:]",
    "h = torch.cat([h[1:], h[:1]])",
    "h = h.flip(0)",
    "h = torch.roll(h, 1, 0)",
    "h = h.cumsum(0)",
    "h = h.sort(0)[0]",
    "h = torch.fft.fft(h, dim=0).real",
    "h = torch.tril(h)",
    "h = F.batch_norm(h, None, None, training=True)",
    "h = h * len(h)",
    "h = h / h.size(0)",
    "h = h * h.trace()",
    "h = h @ torch.cov(h.t())",
    "h = h + torch.cdist(h, h).mean(1, keepdim=True)",
    "h = torch.einsum('bi,ci->bc', h, h) @ h",
    "h = h * (h[:, None] * h[None]).sum(-1).mean(1, keepdim=True)",
    "h = torch.tensordot(h, h, dims=([1], [1])) @ h",
]
IN_FORWARD += [
    "h = h.cummax(0).values",
    "h = h[h[:, 0].argsort()]",
    "h = h.clone(); h.cumsum_(0)",
    "h = h.clone(); h.index_fill_(0, torch.tensor([0]), 2.0)",
    "h = h.index_fill(0, torch.tensor([0]), 2.0)",
    "h = h * torch.distributions.Categorical(logits=h[:, 0]).entropy()",
    "h = h * torch.distributions.Categorical(logits=h).entropy()[:, None]",
    "r = torch.empty(5); torch.sum(h.detach(), 0, out=r); h = h * r",
    "h = h * F.adaptive_avg_pool1d(h.T, 1).mean()",
    "h = h * (h[:, :1] - h[:, 0]).abs().mean()",
    "h = h * F.cosine_similarity(h, h.tanh(), 0)",
]
IN_LOOP = [
    "z = torch.softmax(out, 0)",
    "z = F.normalize(out, dim=-2)",
    "z = torch.linalg.vector_norm(out) * out",
    "z = out * torch.linalg.matrix_norm(out)",
    "z = torch.linalg.pinv(out).t()",
    "z = out * out.trace()",
    "z = torch.tril(out)",
    "z = torch.inner(out, out) @ out",
    "z = torch.renorm(out, 2, 0, 1.0)",
    "z = torch.renorm(out, 2, 1, 1.0)",
    "z = torch.fft.fft(out, dim=0).real",
    "z = torch.fft.fft(out, dim=1).real",
    "z = F.linear(out, out) @ out",
    "z = out.clone(); z.mul_(out[0])",
    "z = out[len(out) // 2] * out",
    "z = torch.take(out, torch.tensor([0, 5, 7])).mean() * out",
]
IN_FORWARD += [  # results that are several, or have no rows; batches behind other dimensions
    "h = h + torch.linalg.qr(h).R.abs().detach().sum()",
    "a = torch.hsplit(h, 5); h = h * a[0]",
    "r = torch.from_numpy(np.frexp(h.detach().numpy())[0]); h = h + r",
    "h3 = h.unsqueeze(1) * h.unsqueeze(2); h = h + h3.mT.sum(1) + h3.mT.sum(2)",
    "h3 = h.unsqueeze(1) * torch.ones(1, 4, 1); h = h + h3.mT.mean(2).sum(1, keepdim=True)",
    "h = h + torch.permute(h, (1, 0)).sum(0)[:, None]",
    "h = h + h.unsqueeze(1).movedim([2, 0], [0, 1]).sum(0)",
    "h = h + F.group_norm(h[None], 1)[0]",
    "h = h + nn.Softmax2d()(h[None, :, None])[0, :, 0]",
    "h = h + F.interpolate(h[None], scale_factor=2)[0].mean(1, keepdim=True)",
]
IN_FORWARD += [  # weights, tables and indices of rows; positions, and what goes by several
    "h = torch.addmm(h[0], h, torch.ones(5, 5))",
    "h = h + torch.gradient(h, dim=0)[0]",
    "h = h + torch.nonzero(h[:, 0] > 0).double().mean()",
    "h = h.index_add(0, torch.arange(len(h)), h)",
]
IN_LOOP += [
    "z = out + F.bilinear(x, x, torch.ones(3, 5, 5), out[0])",
    "z = out + torch.index_fill(out, -1, y, -4.0)",
    "z = out + torch.isin(torch.tensor([0, 1]), y).double().mean()",
    "z = out * torch.repeat_interleave(out, y + 1, 0).mean()",
    "z = torch.masked_scatter(out, out > out.mean(), out.t() @ out)",
    "z = out + F.cross_entropy(out, torch.arange(len(out)) % 3)",
    "z = out * torch.stack([F.cross_entropy(out, y), (out ** 2).sum()]).sum()",
    "f = nn.ModuleList([nn.CrossEntropyLoss(), nn.MultiMarginLoss()]); z = out + f[1](out, y)",
    "m = (y[None] >= y[:, None]).double(); z = out * (out[:, 0] - m.sum(1)).mean()",
    "print(f'{out.sum().half().item():.6f}')",
]
IN_LOOP += [  # tensors that are told to hold a result
    "b = torch.empty(0); torch.sum(out.detach(), 1, out=b); z = out + b[:, None]",
    "b = torch.empty(0); torch.cumsum(out.detach(), 0, out=b); z = out + b",
    "b, i = torch.empty(0), torch.empty(0).long(); torch.max(x, 1, out=(b, i)); z = out * i.sum()",
    "z = torch.complex(out[:, :1], x[:, 1]).abs().mean() + out",
    "z = out + torch.std(out, True)",
]
IN_LOOP += [
    "r = torch.hsplit(out, 3); z = out * r[0].tanh()",
    "r = torch.corrcoef(out); z = out * (r > y.view(-1, 1)).double().mean()",
    "z = torch.linalg.slogdet(out.T @ out).logabsdet * out",
    "r, _ = nn.MaxPool1d(2, return_indices=True)(out); z = out + r",
    "z = out + nn.AvgPool2d((2, 1))(out[None]).mean()",
]
IN_FORWARD += [  # functions that are told a dimension
    "h = h + h.narrow(0, 0, 1)",
    "h = h + h.select(0, 1)",
    "h = torch.gather(h, 0, torch.ones(1, 5, dtype=torch.long)) + h",
    "h = h.index_add(0, torch.tensor([0]), h[:1])",
    "h = h + torch.arange(5.0)[x[:, 0].argmax()]",
    "h = h + h[h[:, 0].argmax()]",
    "h = h * sum(row.norm() for row in h) / len(h)",
]
IN_LOOP += [
    "z = torch.take_along_dim(out, out.argsort(0), 0)",
    "z = torch.gather(torch.arange(3.0), 0, y)[:, None] * out",
    "z = out * out.mean(0)[0]",
    "z = torch.stack([m * out[:, 0] for m in out.mean(0)], 1)",
    "z = out * max(out.mean(), out.sum())",
    "z = out * F.mse_loss(out, out.detach().sin(), False)",
    "z = out * F.cross_entropy(out, y, torch.bincount(y, minlength=3) + 1.0)",
    "z = out * F.cross_entropy(out, y, 1 / torch.arange(1.0, 4.0))",
    "z = out * F.mse_loss(out[:, :1], out[:, 1])",
]
IN_FORWARD += [
    "h = h.clone(); h[0] = 0.0",
    "z = h.clone(); z[1:] += h[:-1]; h = z",
]
IN_LOOP += [
    "z = out.clone(); z[1:] = out[:-1]",
    "z = nn.Softmax(dim=-2)(out)",
    "z = out - torch.aminmax(out, dim=1).max[:, None]",
    "z = out - torch.aminmax(out, dim=0).min",
    "z = out * nn.CosineSimilarity(dim=0)(out, out.sin())",
    "z = out * sum(w * F.cross_entropy(o[None], k[None]) for w, o, k in zip([1, 2], out, y))",
    "z = out * sum(F.cross_entropy(o[None], k[None]) for o, k in zip(out, y) if k > 0)",
    "z = out * sum((o * k).sum() for o in out for k in y)",
]
# Changes in place through views of some samples, and functions that read as methods do.
IN_FORWARD += [
    "h = h * 1; torch.erf_(h[0])",
    "h = h * 1; r = h[1:]; r += 1",
    "h = h * 1; h[0].view(-1).mul_(2)",
    "h = h * 1; h.narrow(0, 0, 1).mul_(2)",
    "h = h * 1; h.diagonal().mul_(2)",
    "h = h * 1; h.masked_scatter_(h > 0, h.detach().clone())",
    "h = torch.put(h, torch.tensor([0, 4]), torch.tensor([1.0, 2.0]))",
    "h = torch.min(h, h[0, 0]); h = h / h.abs().mean()",
    "h = h * h.max(self.first.weight.mean()).sum()",
]
IN_LOOP += [
    "z = out * 1; z[0].zero_()",
    "z = out.clone(); r = z[0]; r.mul_(3)",
    "z = out.clone(); nn.init.constant_(z.detach()[0], 1.0)",
    "z = out.clone(); z.data[0].mul_(2)",
    "z = out.clone(); torch.sin_(z[::2])",
    "z = out.clone(); z[0:1].add_(z[1:2])",
    "z = out.clone(); z[y == 0].mul_(2)",
    "z = out.masked_scatter(out > 0, out.flip(0))",
    "z = torch.index_put(out, (torch.tensor([0]),), torch.tensor(3.0))",
    "z = out.not_equal(out.mean(0)).double() * out",
    "print(sorted(zip(out[:, 0].tolist(), y.tolist()))[0][1])",
    "print(dict(zip(y.tolist(), out.argmax(1).tolist())))",
]
REFUSED = ["z = h.view(-1, 5); z[0] = 0.0", "z = h[:, 1:]; z[1:] += 1.0"]


def _text(*, forward: str = "pass", loop: str = "pass") -> str:
    text = SCRIPT.replace("FORWARD", indent(forward, " " * 8).strip())
    return text.replace("LOOP", indent(loop, " " * 4).strip())


def _script(folder: Path, forward: str) -> Path:
    script = folder / "train.py"
    script.write_text(_text(forward=forward))
    return script


@pytest.mark.parametrize("line", IN_FORWARD)
def test_a_forward_mixes_the_samples_of_all_ranks(trial: Trial, line: str) -> None:
    verdict = trial.verdict(_text(forward=line))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("line", IN_LOOP)
def test_a_loop_mixes_the_samples_of_all_ranks(trial: Trial, line: str) -> None:
    verdict = trial.verdict(_text(loop=line))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("line", REFUSED)
def test_a_write_at_one_position_of_a_batch_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(DdpifyError, match="a write into the row at one position"):
        convert_file(_script(tmp_path, line), Options())


def test_an_operator_that_no_table_lists_gets_the_rows_of_all_ranks(tmp_path: Path) -> None:
    script = _script(tmp_path, "h = h + torch.unheard_of(h)")
    text = convert_file(script, Options()).data.decode()
    assert "h = dd.gather(h) + torch.unheard_of(dd.gather(h))" in text or (
        "h = h + dd.split(torch.unheard_of(dd.gather(h)))" in text
    )
