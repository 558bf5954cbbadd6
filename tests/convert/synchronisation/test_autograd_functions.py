"""Functions with a backward of the script's own, converted and run at 2 and 3 ranks.

Batches of six samples, of which the last has five. Parameters after each step are compared with
those of one process, in float64.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.convert.running import assert_trains_the_same

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples, kinds = torch.randn(17, 5), torch.randint(0, 3, (17,))
feed = DataLoader(TensorDataset(samples, kinds), batch_size=6, shuffle=True)


class Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, places):
        FORWARD
        at = torch.cdist(x, places).argmin(1)
        ctx.save_for_backward(at, x, places)
        ctx.count = len(places)
        return places[at] + x

    @staticmethod
    def backward(ctx, grad):
        at, x, places = ctx.saved_tensors
        hot = F.one_hot(at, ctx.count).type_as(grad)
        BACKWARD


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(4, 5))
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.second(Nearest.apply(self.first(x), self.places))


net = Net()
rule = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for x, y in feed:
    rule.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
"""
PLAIN = "return grad, hot.t() @ grad"
EACH_ALONE = [
    PLAIN,
    "return grad * (x > 0), (hot.t() @ grad) + grad.sum(0)",
    "return grad, places.mean(0) * (hot.t() @ grad)",
    "grad = grad.clone()\n        grad[x < 0] = 0\n        return grad, hot.t() @ grad",
]
OF_ALL = [
    "return grad, (hot / hot.sum(0).clamp(min=1)).t() @ grad",
    "hot /= torch.sum(hot, 0).clamp(min=1)\n        return grad, hot.t() @ grad",
    "return grad, hot.mean(0)[:, None] * (hot.t() @ grad)",
    "return grad / (1 + torch.norm(grad)), hot.t() @ grad",
    "near = hot - 1\n        return grad, near.std(dim=(0, 1)) * (hot.t() @ grad)",
    "return grad - grad.mean(0), hot.t() @ grad",
    "return grad.clamp(-0.01, 0.01), hot.t() @ grad",
    "return grad / grad.sum(1, keepdim=True), hot.t() @ grad",
    "return grad * len(grad), hot.t() @ grad",
    "return grad.flip(0), hot.t() @ grad",
]
FORWARDS = [
    "x = x - x.mean(0)",
    "x = x.softmax(0)",
    "x = x * len(x)",
    "x = x - x.max()",
    "x = x[x[:, 0].argsort()]",
]


def _converted(tmp_path: Path, forward: str, backward: str) -> tuple[Path, str]:
    script = tmp_path / "script.py"
    text = SCRIPT.replace("BACKWARD", backward).replace("        FORWARD\n", forward)
    script.write_text(text, encoding="utf-8")
    converted = tmp_path / "converted.py"
    converted.write_bytes(convert_file(script, Options()).data)
    return converted, "".join(converted.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("backward", EACH_ALONE)
def test_a_backward_that_is_linear_runs_on_a_ranks_rows(
    tmp_path: Path, trial: Trial, backward: str
) -> None:
    converted, text = _converted(tmp_path, "", backward)
    assert "Nearest.apply(self.first(x),self.places)" in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize("backward", OF_ALL)
def test_any_other_backward_gets_the_gradient_of_the_global_batch(
    tmp_path: Path, trial: Trial, backward: str
) -> None:
    converted, text = _converted(tmp_path, "", backward)
    whole = 'dd.split(Nearest.apply(dd.gather(self.first(x)),self.places),backward="global")'
    assert whole in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize("forward", FORWARDS)
def test_a_forward_that_mixes_samples_gets_the_rows_of_all_ranks(
    tmp_path: Path, trial: Trial, forward: str
) -> None:
    converted, text = _converted(tmp_path, f"        {forward}\n", PLAIN)
    assert "dd.gather(self.first(x))" in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)
