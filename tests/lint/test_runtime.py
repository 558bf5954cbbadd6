"""Scripts with ddpify's runtime: pitfalls that are planted in what convert wrote are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ddpify import runtime
from ddpify.lint import fixer
from ddpify.lint.diagnostics import Diagnostic
from ddpify.understanding.libraries import runtime_calls, runtime_names
from tests.conftest import FIXTURES, Ddpify
from tests.lint.conftest import Lint
from tests.lint.runtime_mutants import MUTANTS, Mutant

CONVERTED: dict[tuple[str, ...], str] = {}
Converted = Callable[..., str]


@pytest.fixture
def converted(ddpify: Ddpify, tmp_path: Path) -> Converted:
    """``converted(fixture, *options)`` is the text of its conversion, made once for each."""

    def convert(fixture: str, *options: str) -> str:
        key = (fixture, *options)
        if key not in CONVERTED:
            out = tmp_path / "converted.py"
            done = ddpify("convert", FIXTURES / fixture / "train.py", "-o", out, *options)
            assert done.code == 0
            CONVERTED[key] = out.read_text()
        return CONVERTED[key]

    return convert


def planted(mutant: Mutant, text: str) -> str:
    for old, new in mutant.changes:
        assert text.count(old) == 1, f"{old!r} must occur once in {mutant.fixture}"
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.code}-{m.fixture}")
def test_planted_pitfalls_are_found(mutant: Mutant, converted: Converted, lint_text: Lint) -> None:
    text = converted(mutant.fixture, *mutant.options)
    found = {one.code for one in lint_text(planted(mutant, text))}
    assert mutant.code in found


@pytest.mark.parametrize("key", sorted({(m.fixture, *m.options) for m in MUTANTS}), ids="-".join)
def test_without_a_pitfall_nothing_is_found(
    key: tuple[str, ...], converted: Converted, lint_text: Lint
) -> None:
    assert lint_text(converted(*key)) == []


def test_every_function_of_the_runtime_is_understood() -> None:
    names = {f"{runtime_names.MODULE}.{name}" for name in runtime.__all__}
    assert sorted(names - set(runtime_calls.FUNCTIONS)) == []
    assert names >= runtime_names.COLLECTIVES - {runtime_names.SPREAD_CALL}


TRAINING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from ddpify import runtime as dd

dd.init()
loader = dd.shard(DataLoader(TensorDataset(torch.randn(64, 4), torch.zeros(64).long()), 8))
model = dd.wrap(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hits = 0
for x, y in loader:
    out = model(x)
    optimizer.zero_grad()
    dd.mean(nn.functional.cross_entropy(out, y)).backward()
    optimizer.step()
    hits += (out.argmax(1) == y).sum().item()
"""


@pytest.mark.parametrize(
    "end",
    [
        "print(dd.sum(hits))\n",  # once, after the loop
        "whole = DataLoader(TensorDataset(torch.randn(9, 4)), 3)\n"  # every rank reads all of it
        "print(dd.sum(hits), sum(model(x).sum().item() for x, in whole))\n",
    ],
)
def test_what_is_made_whole_later_is_right(end: str, lint_text: Lint) -> None:
    assert lint_text(TRAINING + end) == []


@pytest.mark.parametrize("line", ["import ddpify_runtime as dd", "import ddpify.runtime as dd"])
def test_the_runtime_is_known_by_each_of_its_names(line: str, lint_text: Lint) -> None:
    text = TRAINING.replace("from ddpify import runtime as dd", line)
    assert [one.code for one in lint_text(text)] == ["DDP405"]


def test_a_file_called_like_the_vendored_runtime_is_not_read(
    lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / "ddpify_runtime.py").write_text("def sum(x): return x\n")
    text = TRAINING.replace("from ddpify import runtime as dd", "import ddpify_runtime as dd")
    assert lint_text(text + "print(dd.sum(hits))\n") == []


RIGHT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter
from ddpify import runtime as dd

dd.init()
device = dd.device()
data = TensorDataset(torch.randn(64, 4), torch.zeros(64).long())
loader = dd.shard(DataLoader(data, 8))
model = dd.wrap(nn.Linear(4, 2).to(dd.device()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
writer = SummaryWriter() if dd.is_main() else dd.silent()
for x, y in loader:
    out = model(x.to(device))
    loss = dd.mean(nn.functional.cross_entropy(out, y.to(device)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item(), dd.sum((out.argmax(1) == y.to(device)).sum()).item())
if dd.is_main():
    open("done", "w")
dd.save(model.state_dict(), "model.pt")
"""


@pytest.mark.parametrize(
    ("code", "good", "bad"),
    [
        ("DDP101", "dd.shard(DataLoader(data, 8))", "DataLoader(data, 8)"),
        ("DDP201", "device = dd.device()", 'device = torch.device("cuda:0")'),
        ("DDP201", ".to(dd.device())", '.to("cuda:0")'),
        ("DDP201", ".to(dd.device())", ".cuda(0)"),
        (
            "DDP405",
            "dd.sum((out.argmax(1) == y.to(device)).sum())",
            "(out.argmax(1) == y.to(device)).sum()",
        ),
        (
            "DDP413",
            "dd.mean(nn.functional.cross_entropy(out, y.to(device)))",
            "nn.functional.cross_entropy(out, y.to(device))",
        ),
        ("DDP501", 'if dd.is_main():\n    open("done", "w")', 'open("done", "w")'),
        ("DDP501", "dd.save(", "torch.save("),
        ("DDP508", "SummaryWriter() if dd.is_main() else dd.silent()", "SummaryWriter()"),
    ],
)
def test_fixes_are_in_the_runtimes_words(code: str, good: str, bad: str, lint_text: Lint) -> None:
    assert RIGHT.count(good) == 1
    assert lint_text(RIGHT) == []

    def check(text: str) -> list[Diagnostic]:
        return lint_text(text, select=(code,))

    fixed, _ = fixer.fix_until_stable(
        RIGHT.replace(good, bad), check, unsafe=True, compiles=lambda _: True
    )
    assert fixed == RIGHT
