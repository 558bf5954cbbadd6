"""--device cuda: on real GPUs where there are some; else with the CPU in their place."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import torch

from ddpify.verify import Kind, as_html, render, verify
from ddpify.verify.inside import patching
from ddpify.verify.inside.rank import environment
from ddpify.verify.launch.job import Job
from tests.conftest import FIXTURES, Ddpify

pytestmark = pytest.mark.usefixtures("warm")

FAKE = Path(__file__).parent / "fake_gpus"
FEW = torch.cuda.device_count() < 2


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    if FEW:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), str(FIXTURES.parent)]))


@pytest.mark.gpu
@pytest.mark.usefixtures("gpus")
def test_runs_where_the_gpus_are(folder: Path) -> None:
    scripts = (Path("cuda_single.py"), Path("cuda_port.py"))
    verdict = verify(*scripts, device="cuda", allow=["batchnorm"])
    assert verdict.kind is Kind.EXCEPT, render(verdict)
    assert verdict.exit_code == 0
    assert "on GPUs in float64" in render(verdict)
    assert "step by step on GPUs" in as_html(verdict)


@pytest.mark.skipif(not FEW, reason="there are GPUs")
def test_too_few_gpus_are_named(folder: Path, ddpify: Ddpify) -> None:
    done = ddpify("verify", "single.py", "port.py", "--device", "cuda", "--nproc", "2,9")
    assert done.code == 2
    assert "9 processes need as many GPUs" in done.stderr
    assert "--device cpu" in done.stderr


def test_unknown_device(folder: Path, ddpify: Ddpify) -> None:
    done = ddpify("verify", "single.py", "port.py", "--device", "tpu")
    assert done.code == 2
    assert "'cuda'" in done.stderr


@pytest.mark.parametrize(("gpus", "hidden"), [(False, True), (True, False)])
def test_gpus_are_hidden_unless_asked_for(gpus: bool, hidden: bool) -> None:
    job = Job("a.py", "a.py", (), "/", "/", "/", (), "/", world_size=2, gpus=gpus)
    assert ("CUDA_VISIBLE_DEVICES" in environment(job, 1, 1)) is hidden
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


@pytest.mark.parametrize(("shown", "used"), [("3", 3), ("0", 0), ("2,3", 0), ("", 0)])
def test_a_process_that_sees_one_gpu_uses_that_one(
    monkeypatch: pytest.MonkeyPatch, shown: str, used: int
) -> None:
    monkeypatch.setattr(patching, "devices", Counter({0: 5}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert patching.devices_used() == {used: 5}
