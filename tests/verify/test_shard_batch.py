"""Same data? For batches made by hand that the converter splits with ``dd.shard_batch``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.verify import Kind, Verdict, What, render, verify
from ddpify.verify.launch.launcher import Worker

SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stock = torch.randn(31, 6)
for epoch in range(2):
    order = torch.randperm(31)
    for first in range(0, 31, 5):
        x = stock[order[first:first + 5]]
        y = x.sum(-1, keepdim=True)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
"""
EDITS = {
    "import torch\n": "import torch\nfrom ddpify import runtime as dd\ndd.init()\n",
    "5, 1))\n": "5, 1))\nmodel = dd.wrap(model)\n",
    "first + 5]]\n": "first + 5]]\n        x = dd.shard_batch(x)\n",
    "loss.backward()": "loss = dd.mean(loss)\n        loss.backward()",
}
"""What makes it run on several ranks; the last batch of an epoch has one row."""


def verdict_on(
    folder: Path, worker: Worker, *wrong: tuple[str, str], script: str = SCRIPT
) -> Verdict:
    """The verdict on a script for 2 and 3 ranks, with some of its text replaced."""
    original, port = folder / "train.py", folder / "port.py"
    original.write_text(script)
    text = script
    for old, new in [*EDITS.items(), *wrong]:
        assert old in text
        text = text.replace(old, new)
    port.write_text(text)
    return verify(original, port, nproc=(2, 3), worker=worker, timeout=300)


BY_LAYERS = SCRIPT.replace("(model(x) - y)", "(model[2](model[1](model[0](x))) - y)")
"""A rank without a sample calls two layers with a row of another rank."""


@pytest.mark.parametrize("script", [SCRIPT, BY_LAYERS], ids=["model", "layers"])
def test_rows_of_each_batch(script: str, tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, script=script)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert [item.same_data for item in verdict.comparisons] == [True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        ("torch.randperm(31)\n", "torch.randperm(31).roll(dd.rank())\n"),
        ("x = dd.shard_batch(x)", "x = dd.shard_batch(x, x)[0][:1]"),
        ("x = dd.shard_batch(x)", "dd.shard_batch(x)"),
    ],
    ids=["another order on each rank", "one row a rank", "not split"],
)
def test_other_rows(wrong: tuple[str, str], tmp_path: Path, worker: Worker) -> None:
    verdict = verdict_on(tmp_path, worker, wrong)
    for comparison in verdict.comparisons:
        assert comparison.same_data is False, render(verdict)
        assert comparison.kind is Kind.NOT_EQUIVALENT
        assert comparison.differences[0].what is What.DATA
