"""A collate function that a loader gets after it is made, as an attribute."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome, Verdict
from benchmarks.soundness.trying import Trial

SCRIPT = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def collate(samples):
    x = torch.stack([sample[0] for sample in samples])
    y = torch.stack([sample[1] for sample in samples])
    return x - x.mean(0), y


class Loader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        SET_INSIDE

    def put(self, samples):
        return collate(samples)


torch.manual_seed(0)
data = TensorDataset(torch.randn(13, 4), torch.randn(13, 4))
loader = Loader(data, batch_size=5, shuffle=True)
SET_OUTSIDE
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("self.collate_fn = collate", ""),
        ("self.collate_fn = self.put", ""),
        ("setattr(self, 'collate_fn', collate)", ""),
        ("pass", "loader.collate_fn = collate"),
        ("pass", "setattr(loader, 'collate_fn', loader.put)"),
    ],
)
def test_it_gets_all_samples_of_a_batch(trial: Trial, inside: str, outside: str) -> None:
    text = SCRIPT.replace("SET_INSIDE", inside).replace("SET_OUTSIDE", outside)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_by_a_name_that_is_put_together(trial: Trial) -> None:
    text = SCRIPT.replace("= Loader(", "= DataLoader(").replace("SET_INSIDE", "pass")
    text = text.replace("SET_OUTSIDE", "setattr(loader, 'collate_' + 'fn', collate)")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


# A data set of whole batches, each of which is one sample to the loader.
OF_ONE = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def take(batch):
    assert len(batch) == 1
    return batch[0]


class Loader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.collate_fn = take


torch.manual_seed(0)
rows = torch.randn(13, 4), torch.randn(13, 4)
batches = [(rows[0][i : i + 5], rows[1][i : i + 5]) for i in range(0, 13, 5)]
loader = LOADER
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize(
    "loader",
    [
        "DataLoader(batches, batch_size=1, shuffle=True, collate_fn=take)",
        "DataLoader(batches, shuffle=True, collate_fn=take)",
        "Loader(batches, batch_size=1, shuffle=True)",
    ],
)
def test_one_sample_is_put_together_alone(trial: Trial, loader: str) -> None:
    verdict = trial.verdict(OF_ONE.replace("LOADER", loader))
    assert verdict.outcome is Outcome.UNDIVIDED, verdict.detail


PROPERTY = """\
    @property
    def collate_fn(self):
        return collate

    @collate_fn.setter
    def collate_fn(self, function):
        pass
"""
FOR_ALL_NAMES = """\
    def __getattribute__(self, name):
        return collate if name == "collate_fn" else super().__getattribute__(name)
"""


@pytest.mark.parametrize(
    "method", [PROPERTY, "    collate_fn = property(lambda self: collate)\n", FOR_ALL_NAMES]
)
def test_a_class_that_computes_it_is_refused(trial: Trial, method: str) -> None:
    text = SCRIPT.replace("SET_INSIDE", "pass").replace("SET_OUTSIDE", "")
    converted = trial.converted(text.replace("    def __init__", f"{method}\n    def __init__"))
    assert isinstance(converted, Verdict) and "put whole batches together" in converted.detail
