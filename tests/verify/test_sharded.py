"""Sharded models: parameters are recorded in parts, and put together after the run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ddpify.convert import Options, convert_file
from ddpify.verify import Kind, render, verify
from ddpify.verify.launch.launcher import Worker
from tests.conftest import FIXTURES

ORIGINAL = FIXTURES / "gradient_accumulation" / "train.py"


@pytest.mark.parametrize(
    ("loss", "kind"), [("dd.mean", Kind.EQUIVALENT), ("", Kind.NOT_EQUIVALENT)]
)
def test_a_sharded_script_is_judged(loss: str, kind: Kind, tmp_path: Path, worker: Worker) -> None:
    original = tmp_path / "train.py"  # where nothing else lies beside it that is copied for a run
    shutil.copyfile(ORIGINAL, original)
    converted = convert_file(original, Options(strategy="fsdp")).data.decode()
    assert "dd.mean(loss / ACCUM_STEPS)" in converted
    script = tmp_path / "train_fsdp.py"
    script.write_text(converted.replace("dd.mean(loss", f"{loss}(loss"))
    steps = None if kind is Kind.EQUIVALENT else 2  # what is wrong is wrong from the first on
    verdict = verify(original, script, nproc=[3], steps=steps, worker=worker, timeout=120)
    assert verdict.kind is kind, render(verdict)
    if kind is Kind.NOT_EQUIVALENT:
        assert verdict.comparisons[0].differences[0].what == "gradient", render(verdict)
