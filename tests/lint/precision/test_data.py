"""Right code, in forms that were once reported: other uses of data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a random split of rank 0's that all get": """
torch.manual_seed(1 + rank)
order = torch.randperm(len(dataset)).to(device)
dist.broadcast(order, 0)
part = torch.utils.data.Subset(dataset, order.tolist()[:50])
""",
    "a transform with a generator of its own": """
class Noise:
    def __init__(self):
        self.generator = random.Random()

    def __call__(self, x):
        return x + self.generator.random()

class Noisy(Dataset):
    def __init__(self):
        self.transform = Noise()

    def __len__(self):
        return len(dataset)

    def __getitem__(self, index):
        return self.transform(dataset[index][0]), dataset[index][1]

noisy = Noisy()
order = DistributedSampler(noisy)
for epoch in range(epochs):
    order.set_epoch(epoch)
    for x, y in DataLoader(noisy, 32, sampler=order):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "batches that the data set makes": """
normed = DDP(nn.Sequential(nn.Linear(10, 2), nn.BatchNorm1d(2)).to(device))
whole = DataLoader(dataset, batch_size=1, sampler=sampler, collate_fn=lambda samples: samples[0])
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in whole:
        criterion(normed(x), y).backward()
        optimizer.step()
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


SPLIT = """
import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, Subset


def take(dataset, count):
    return Subset(dataset, np.random.choice(len(dataset), count, replace=False))


def make_loader(dataset):
    return DataLoader(dataset, 32, sampler=DistributedSampler(take(dataset, 10)))
"""


def test_a_library_may_be_seeded_by_whoever_calls_it(lint_text: Lint) -> None:
    assert "DDP107" not in {one.code for one in lint_text(SPLIT, name="data.py")}
    called = SPLIT + "loader = make_loader(dataset)\ntorch.distributed.init_process_group()\n"
    assert "DDP107" in {one.code for one in lint_text(called)}


@pytest.mark.parametrize(("first", "found"), [("", True), ("seed_everything(0)\n", False)])
def test_code_that_is_not_seen_may_seed(first: str, found: bool, lint_text: Lint) -> None:
    text = "from elsewhere import seed_everything\n" + SETUPS["distributed"] + first
    text += "train, held_out = random_split(dataset, [80, 20])\n"
    assert [one.code for one in lint_text(text, select=("DDP107",))] == ["DDP107"] * found


@pytest.mark.parametrize(("score", "found"), [("total", True), ("agree(total)", False)])
def test_a_mean_of_what_unseen_code_adds_up(score: str, found: bool, lint_text: Lint) -> None:
    text = (
        "from elsewhere import agree\n"
        + SETUPS["distributed"]
        + f"""
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
print({score} / len(dataset))
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP111",))] == ["DDP111"] * found


def test_slices_that_a_function_of_another_file_reads(lint_text: Lint, tmp_path: Path) -> None:
    shown = "def shown(x):\n    held = x[1:]\n    first = held[0]\n    return first\n"
    (tmp_path / "pictures.py").write_text(shown)
    text = (
        SETUPS["distributed"]
        + """
from pictures import shown

torch.manual_seed(0)
data, wanted = torch.zeros(100, 10), torch.zeros(100).long()
for step in range(100):
    picked = torch.randint(100, (8,))
    criterion(model(data[picked]), wanted[picked]).backward()
    optimizer.step()
    shown(data)
"""
    )
    assert lint_text(text, select=("DDP106",))


CYCLED = """
from itertools import cycle
other = DataLoader(dataset, 8, sampler=DistributedSampler(dataset))
{before}
for epoch in range(epochs):
    {within}
    for step, {names} in {over}:
        criterion(model(x), y).backward()
        optimizer.step()
        {last}
"""


@pytest.mark.parametrize(
    ("before", "within", "names", "over", "last", "found"),
    [
        ("", "", "((x, y), more)", "enumerate(zip(loader, cycle(other)))", "", False),
        ("", "it = cycle(other)", "(x, y)", "enumerate(loader)", "more = next(it)", False),
        ("it = cycle(other)", "", "(x, y)", "enumerate(loader)", "more = next(it)", True),
        ("pairs = zip(loader, cycle(other))", "", "((x, y), more)", "enumerate(pairs)", "", True),
        ("", "", "(x, y)", "enumerate(cycle(other))", "", True),
        ("", "", "((x, y), more)", "enumerate(zip(cycle(other), cycle(loader)))", "", True),
    ],
)
def test_a_cycle_that_each_epoch_makes_anew(
    before: str, within: str, names: str, over: str, last: str, found: bool, lint_text: Lint
) -> None:
    text = CYCLED.format(before=before, within=within or "pass", names=names, over=over, last=last)
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP118",))) is found


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("MNIST('data', train=False, download=True)", 1),
        ("MNIST('other', train=False, download=True)", 2),
        ("CIFAR10('data', train=False, download=True)", 2),
    ],
)
def test_parts_that_come_together_are_downloaded_once(
    second: str, found: int, lint_text: Lint
) -> None:
    text = "from torchvision.datasets import CIFAR10, MNIST\n" + SETUPS["distributed"]
    text += f"held = MNIST('data', download=True)\nmore = {second}\n"
    assert [one.code for one in lint_text(text, select=("DDP117",))] == ["DDP117"] * found


def test_a_download_under_a_condition_brings_nothing_to_others(lint_text: Lint) -> None:
    text = "from torchvision.datasets import MNIST\n" + SETUPS["distributed"]
    text += "if epochs > 3:\n    held = MNIST('data', download=True)\n"
    text += "more = MNIST('data', download=True)\n"
    assert len(lint_text(text, select=("DDP117",))) == 2


@pytest.mark.parametrize(
    ("download", "found"), [("True", 1), ("rank == 0", 0), ("False", 0), ("epochs > 3", 0)]
)
def test_a_download_is_found_where_it_is_certain(
    download: str, found: int, lint_text: Lint
) -> None:
    text = "from torchvision import datasets\nrank = dist.get_rank()\n"
    text = SETUPS["distributed"] + text
    text += f"held = vars(datasets)[input()]('data', download={download})\n"
    assert len(lint_text(text, select=("DDP117",))) == found
