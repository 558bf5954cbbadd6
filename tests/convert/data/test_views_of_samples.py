"""Data sets whose transform makes several views of each sample, as in contrastive learning."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import added

TRANSFORM = """\
class Twice:
    def __init__(self, base):
        self.base = base

    def __call__(self, x):
        MADE


"""
SCRIPT = f"""\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


{TRANSFORM}\
def darker(x):
    return x * 0.5


class Pictures(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 22

    def __getitem__(self, i):
        picture = torch.rand(3, 4, generator=torch.Generator().manual_seed(i))
        return self.transform(picture.double()), i % 4


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(DATA, batch_size=8, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (views, labels) in enumerate(feed):
LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item())
"""
PAIR = "loss = F.mse_loss(model(views[0]), model(views[1]))"
LOSSES = [
    PAIR,
    f"views[0] = views[0].to('cpu')\nviews[1] = views[1].to('cpu')\n{PAIR}",
    "n = labels.size(0)\na, b = torch.split(model(torch.cat(views, dim=0)), [n, n], dim=0)\n"
    "loss = F.mse_loss(a, b)",
    "z = F.normalize(model(torch.cat(views, dim=0)), dim=1)\n"
    "own = torch.arange(labels.size(0)).repeat(2)\n"
    "loss = (z @ z.t() - (own[:, None] == own[None, :]).double()).pow(2).mean()",
    "loss = sum(F.cross_entropy(model(v), labels, reduction='sum') for v in views)\n"
    "loss = loss / views[0].size(0)",
]


def _script(made: str, data: str, loss: str) -> str:
    text = SCRIPT.replace("MADE", made).replace("DATA", data)
    return text.replace("LOSS", indent(loss, "    "))


@pytest.mark.parametrize("loss", LOSSES)
def test_each_view_has_a_row_for_each_sample(trial: Trial, loss: str) -> None:
    verdict = trial.verdict(_script("return [self.base(x), x]", "Pictures(Twice(darker))", loss))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    "data", ["Pictures(Twice(darker))", "Subset(Pictures(Twice(darker)), range(9))"]
)
def test_views_in_a_tuple_of_a_part_of_the_data(trial: Trial, data: str) -> None:
    made = "one = self.base(x)\n        other = x + 1\n        return one, other"
    verdict = trial.verdict(_script(made, data, LOSSES[1]))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_views_in_one_tensor_are_single_samples(trial: Trial) -> None:
    """The first item of the batch is the views of one sample then: there is no work to divide."""
    script = _script("return torch.stack([self.base(x), x])", "Pictures(Twice(darker))", PAIR)
    verdict = trial.verdict(script.replace("labels", "_"))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
    assert "every rank, which would do all of the work" in verdict.detail


@pytest.mark.parametrize(
    "data",
    [
        'CIFAR10("data", train=True, transform=Twice(ToTensor()))',
        'ImageFolder("data", Twice(ToTensor()))',
        'CIFAR10("data", transform=Compose([RandomHorizontalFlip(), Twice(ToTensor())]))',
    ],
)
def test_transforms_of_a_library_s_data(tmp_path: Path, data: str) -> None:
    head = "from torchvision.datasets import CIFAR10, ImageFolder\n"
    head += "from torchvision.transforms import Compose, RandomHorizontalFlip, ToTensor\n"
    text = head + _script("return [self.base(x), self.base(x)]", data, LOSSES[1])
    lines = "".join(added(tmp_path, text))
    assert "dd.mean(F.mse_loss(" in lines
    assert "gather" not in lines
