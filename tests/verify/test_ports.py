"""Ports with other frameworks, written by hand: good ones pass, bad ones fail, and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ddpify.verify import Kind, Verdict, What, render, verify
from ddpify.verify.launch.launcher import Worker
from tests.conftest import FIXTURES

PORTS = Path(__file__).parent / "ports"
FRAMEWORKS = ("accelerate", "lightning_fabric")


def judged(port: str, folder: Path, worker: Worker, *edits: tuple[str, str]) -> Verdict:
    """The verdict on a port of fixtures/functions with some text replaced."""
    pytest.importorskip(port)
    source = (PORTS / f"{port.split('_')[-1]}_port.py").read_text()
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    shutil.copyfile(FIXTURES / "functions" / "train.py", folder / "train.py")
    (folder / "port.py").write_text(source)
    allow, args = ["padding", "order"], ["--epochs", "3"]
    scripts = (folder / "train.py", folder / "port.py")
    return verify(*scripts, worker=worker, allow=allow, script_args=args, timeout=120)


@pytest.mark.parametrize("port", FRAMEWORKS)
def test_good_port(port: str, tmp_path: Path, worker: Worker) -> None:
    verdict = judged(port, tmp_path, worker)
    assert verdict.kind is Kind.EXCEPT, render(verdict)
    assert [cause.name for cause in verdict.named] == ["padding"]
    assert verdict.exit_code == 0
    assert verdict.comparisons[0].same_arithmetic is True


BAD = [
    ("accelerate", "accelerator.backward(loss)", "accelerator.backward(loss / 4)", "DDP416"),
    (
        "accelerate",
        "target = accelerator.gather_for_metrics((model(data), target))",
        "target = model(data), target",
        "DDP405",
    ),
    ("lightning_fabric", "loss(model(data), target)", "loss(model.module(data), target)", "DDP304"),
    ("lightning_fabric", "train_loader = fabric.setup_dataloaders(train_loader)", "", "DDP101"),
]


@pytest.mark.parametrize(("port", "old", "new", "rule"), BAD)
def test_bad_port(port: str, old: str, new: str, rule: str, tmp_path: Path, worker: Worker) -> None:
    verdict = judged(port, tmp_path, worker, (old, new))
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    found = [item.cause for item in verdict.comparisons[0].leading if item.cause]
    assert found[0].rules[0] == rule, render(verdict)
    assert What.HANG not in [item.what for item in verdict.comparisons[0].differences]
