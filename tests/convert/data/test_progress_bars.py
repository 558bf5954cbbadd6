"""Progress bars around loaders."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import HEAD, STEP, added


def test_a_bar_around_itself(tmp_path: Path) -> None:
    """``feed = tqdm(feed)`` in the loop of the epochs, in two places."""
    text = HEAD.replace("import torch\n", "import torch\nimport tqdm\n", 1)
    text += "for epoch in range(3):\n    feed = tqdm.tqdm(feed)\n" + indent(STEP, "    ")
    text += (
        "    feed = tqdm.tqdm(feed)\n    for a, b in feed:\n        print(brain(a).sum().item())\n"
    )
    lines = added(tmp_path, text)
    assert lines.count("feed = tqdm.tqdm(feed, disable=not dd.is_main())") == 2
    assert (
        "feed = dd.shard(DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True))"
        in lines
    )


@pytest.mark.parametrize(
    ("imported", "loop"),
    [
        ("from tqdm.contrib import tenumerate", "i, (a, b) in tenumerate(feed)"),
        ("from tqdm.contrib import tzip", "(a, b), i in tzip(feed, range(9))"),
        ("from tqdm.contrib import tmap", "a, b in tmap(lambda one: one, feed)"),
        ("from tqdm.std import tqdm", "a, b in tqdm(feed)"),
        ("from tqdm.rich import tqdm", "a, b in tqdm(feed)"),
        ("from tqdm import tqdm_notebook", "a, b in tqdm_notebook(feed)"),
        ("from rich.progress import track", "i, (a, b) in enumerate(track(sequence=feed))"),
        ("from alive_progress import alive_it", "a, b in alive_it(feed)"),
    ],
)
def test_other_bars(tmp_path: Path, imported: str, loop: str) -> None:
    """The loader under a bar is split, and rank 0 alone shows the bar."""
    text = f"{imported}\n{HEAD}{STEP.replace('a, b in feed', loop)}"
    lines = added(tmp_path, text)
    assert any(line.startswith("feed = dd.shard(") for line in lines)
    assert any("disable=not dd.is_main())" in line for line in lines)


COUNTED = """\
import sys
import types

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

bars = types.ModuleType("tqdm.contrib")
bars.tenumerate = lambda held, start=0, disable=False: enumerate(held, start)
sys.modules["tqdm"] = types.ModuleType("tqdm")
sys.modules["tqdm.contrib"] = bars
from tqdm.contrib import tenumerate

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
features, labels = torch.randn(20, 4), torch.randn(20, 1)
feed = DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True)
brain = nn.Linear(4, 1)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for number, (a, b) in tenumerate(feed, 1):
    penalty = (brain(a) - b).pow(2).mean()
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print(number, penalty.item())
"""


def test_batches_that_a_bar_counts_are_shared(trial: Trial) -> None:
    verdict = trial.verdict(COUNTED)
    assert verdict.outcome is Outcome.SAME, verdict.detail
