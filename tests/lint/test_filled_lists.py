"""Draws that decide which samples a data set has, and others that come to it in some way."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TEXT = """
class Files(Dataset):
    def __init__(self, files, scale=1.0):
        self.files = {kept}
        self.scale = scale

    def __len__(self):
        return {count}

    def __getitem__(self, index):
        return torch.zeros(10) * self.scale, 0

random.seed(rank)
{made}
order = DistributedSampler(data)
for epoch in range(epochs):
    order.set_epoch(epoch)
    for x, y in DataLoader(data, 8, sampler=order):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
CHANCE = """train, held = [], []
for one in open("files.txt"):
    if random.random() < 0.8:
        train.append(one)
    else:
        held.append(one)
data = Files(train)"""
DRAWN = """names = [*open("files.txt")]
held = set(random.sample(names, 10))
train = []
for one in names:
    if one not in held:
        train += [one]
data = Files(train)"""
SCALES = """scales = []
for one in range(10):
    if random.random() < 0.8:
        scales.append(one)
data = Files([*open("files.txt")], scale=sum(scales))"""


@pytest.mark.parametrize(
    ("made", "kept", "count", "found"),
    [
        (CHANCE, "files", "len(self.files)", True),
        (CHANCE, "sorted(files)", "self.count()", True),
        (DRAWN, "files", "len(self.files)", True),
        (SCALES, "files", "len(self.files)", False),
        (SCALES, "files", "self.count()", False),
    ],
)
def test_what_is_counted_as_samples(
    made: str, kept: str, count: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + TEXT.format(made=made, kept=kept, count=count)
    if count == "self.count()":
        text = text.replace(
            "    def __len__",
            "    def count(self):\n        return len(self.files)\n\n    def __len__",
        )
    assert ("DDP602" in [one.code for one in lint_text(text)]) is found


def test_a_data_set_whose_length_is_not_in_sight(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TEXT.format(made=CHANCE, kept="files", count="1")
    text = text.replace("data = Files(train)", "data = TensorDataset(torch.tensor(train))")
    assert "DDP602" in [one.code for one in lint_text(text)]
