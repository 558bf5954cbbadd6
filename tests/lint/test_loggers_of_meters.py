"""A logger is shown by what its meters say, which it puts together in a text."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

METERS = """
from collections import defaultdict

class Meter:
    def __init__(self, text="{average:.4f}"):
        self.text, self.total, self.count = text, 0.0, 0
    def update(self, value):
        self.total += value
        self.count += 1
    def reduce(self):
        both = torch.tensor([self.count, self.total], device="cuda")
        dist.all_reduce(both)
        self.count, self.total = int(both[0]), both[1].item()
    @property
    def average(self):
        return self.total / self.count
    def __str__(self):
        return self.text.format(average=self.average)

class Logger:
    def __init__(self):
        self.meters = defaultdict(Meter)
        self.between = ", "
    def update(self, **numbers):
        for name, number in numbers.items():
            self.meters[name].update(number)
    def reduce(self):
        for meter in self.meters.values():
            meter.reduce()
    def __str__(self):
        texts = []
        for name, meter in self.meters.items():
            texts.append("{}: {}".format(name, str(meter)))
        return self.between.join(texts)
    def over(self, batches):
        for number, batch in enumerate(batches):
            yield batch
            if number % 10 == 0:
                print(str(self))

def mean(x):
    x = x.detach().clone()
    dist.all_reduce(x)
    return x / world_size

logger, other = Logger(), Logger()
for x, y in logger.over(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    logger.update(loss={told})
    {told_other}
{reduced}
if rank == 0:
    print("Averaged:", logger)
"""


def _shown(lint_text: Lint, told: str, reduced: str, told_other: str = "pass") -> int:
    text = METERS.replace("{told}", told).replace("{told_other}", told_other)
    text = SETUPS["distributed"] + text.replace("{reduced}", reduced)
    return len(lint_text(text, select=("DDP405",)))


@pytest.mark.parametrize("reduced", ["pass", "other.reduce()"])
def test_its_meters_are_a_rank_s_own(reduced: str, lint_text: Lint) -> None:
    assert _shown(lint_text, "loss.item()", reduced) == 1


@pytest.mark.parametrize(
    ("told", "reduced", "other"),
    [
        ("loss.item()", "logger.reduce()", "pass"),
        ("mean(loss).item()", "pass", "pass"),
        ("mean(loss).item()", "pass", "other.update(loss=loss.item())"),
    ],
)
def test_its_meters_are_reduced(told: str, reduced: str, other: str, lint_text: Lint) -> None:
    assert not _shown(lint_text, told, reduced, other)
