"""Scripts on GPUs with NCCL: converted ones train as the original does on one GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ddpify.convert import Options, convert_file
from tests.conftest import FIXTURES, Ddpify

pytestmark = pytest.mark.gpu
SECONDS = 180.0
SINGLE = sorted(path.parent.name for path in FIXTURES.glob("*/train.py"))
LEFT_OUT = {
    "multi_file",  # a project, which verify does not convert by itself
    "trainer_project",
}

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
torch.backends.cuda.matmul.allow_tf32 = False
torch.use_deterministic_algorithms(True)
device = torch.device("cuda")
data = TensorDataset(torch.randn(44, 6), torch.randn(44, 1))
loader = DataLoader(data, batch_size=8, shuffle=True, pin_memory=True)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
"""
PLAIN = """\
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""
AMP = """\
scaler = torch.amp.GradScaler("cuda")
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
torch.save(model.state_dict(), "model.pt")
"""
DRAWS = PLAIN.replace("model(x)", "model(x + 0.1 * torch.randn(x.shape, device=device))")
STREAM = PLAIN.replace(
    "        loss =",
    "        side.wait_stream(torch.cuda.current_stream())\n"
    "        with torch.cuda.stream(side):\n            twice = 2 * y\n"
    "        torch.cuda.current_stream().wait_stream(side)\n        y = twice / 2\n        loss =",
).replace("for epoch", "side = torch.cuda.Stream()\nfor epoch", 1)
SCRIPTS = {"plain": PLAIN, "AMP": AMP, "draws on the device": DRAWS, "a stream": STREAM}
MARKED = [
    name if name == "a stream" else pytest.param(name, marks=pytest.mark.on_cpu) for name in SCRIPTS
]
CLOSE = {"AMP": 2e-2}  # float16 rounds to one part in a thousand


Launched = Callable[..., dict[str, torch.Tensor]]


@pytest.fixture
def launched(variables: dict[str, str], tmp_path: Path) -> Launched:
    """Runs a command, and returns the checkpoint that it leaves."""
    return lambda command, **more: run(command, tmp_path, {**os.environ, **variables, **more})


def run(command: list[str], folder: Path, env: dict[str, str]) -> dict[str, torch.Tensor]:
    (folder / "model.pt").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    loaded: dict[str, torch.Tensor] = torch.load(folder / "model.pt", map_location="cpu")
    return loaded


def torchrun(count: int) -> list[str]:
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]


def converted(text: str, folder: Path, options: Options | None = None) -> None:
    (folder / "train.py").write_text(HEAD + text)
    result = convert_file(folder / "train.py", options or Options())
    (folder / "train_ddp.py").write_bytes(result.data)


@pytest.mark.parametrize("name", MARKED)
def test_scripts_train_the_same(
    name: str, counts: list[int], launched: Launched, tmp_path: Path
) -> None:
    converted(SCRIPTS[name], tmp_path)
    expected = launched(["train.py"])
    for count in counts:
        if name == "draws on the device" and count > 1:
            continue  # ranks draw from streams of their own
        found = launched([*torchrun(count), "train_ddp.py"])
        close = CLOSE.get(name, 1e-4)
        torch.testing.assert_close(found, expected, rtol=close, atol=close)


@pytest.mark.parametrize("name", ["plain", "AMP"])
def test_two_ranks_share_a_gpu(name: str, launched: Launched, tmp_path: Path) -> None:
    """Over gloo; SyncBatchNorm's kernels and the exchange of gradients then show on one GPU."""
    converted(SCRIPTS[name], tmp_path)
    expected = launched(["train.py"])
    shared = {"DDPIFY_BACKEND": "gloo", "CUDA_VISIBLE_DEVICES": "0"}
    found = launched([*torchrun(2), "train_ddp.py"], **shared)
    close = CLOSE.get(name, 1e-4)
    torch.testing.assert_close(found, expected, rtol=close, atol=close)


@pytest.mark.on_cpu
def test_check_under_torchrun(counts: list[int], launched: Launched, tmp_path: Path) -> None:
    """Ranks with NCCL are compared with each other, on the real devices."""
    converted(PLAIN, tmp_path)
    launched([*torchrun(counts[-1]), "-m", "ddpify", "check", "train_ddp.py"])


@pytest.mark.on_cpu
def test_a_sharded_model_trains_the_same(
    counts: list[int], launched: Launched, tmp_path: Path
) -> None:
    converted(PLAIN, tmp_path, Options(strategy="fsdp"))
    expected = launched(["train.py"])
    for count in counts:
        found = launched([*torchrun(count), "train_ddp.py"])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.on_cpu
def test_a_training_that_was_cut_goes_on(
    counts: list[int], launched: Launched, tmp_path: Path
) -> None:
    """The first attempt ends in the middle of the second epoch, at a step after a snapshot."""
    converted(PLAIN, tmp_path, Options(resume=True, snapshot_steps=2))
    expected = launched(["train.py"])
    path = tmp_path / "train_ddp.py"
    step = "optimizer.step()\n"
    cut = (
        f"{step}        steps = globals().get('steps', 0) + 1\n"
        "        if steps == 9 and __import__('os').environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "            raise SystemExit(9)\n"
    )
    text = path.read_text()
    assert text.count(step) == 1
    path.write_text(text.replace(step, cut))
    for count in counts:
        command = [*torchrun(count), "--max-restarts=1", "train_ddp.py"]
        found = launched(command)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in SINGLE if name not in LEFT_OUT])
def test_fixtures_are_equivalent(name: str, counts: list[int], ddpify: Ddpify) -> None:
    """In float64, step by step: gradients, parameters, buffers, samples, prints and files."""
    numbers = ",".join(map(str, counts))
    script = FIXTURES / name / "train.py"
    done = ddpify("verify", script, "--device", "cuda", "--nproc", numbers, "--timeout", "120")
    assert done.code == 0, done.stdout + done.stderr


def test_doctor_tests_the_gpus(ddpify: Ddpify) -> None:
    done = ddpify("doctor", "--json")
    assert '"level": "error"' not in done.stdout, done.stdout
    assert "NCCL" in done.stdout and "NVIDIA driver" in done.stdout
    if torch.cuda.device_count() > 1:
        assert "in one group, with NCCL" in done.stdout


def test_profile_measures_the_gpu(counts: list[int], ddpify: Ddpify, tmp_path: Path) -> None:
    converted(PLAIN.replace("range(2)", "range(20)"), tmp_path)
    options = ("--nproc", str(counts[-1]), "--steps", "20", "--trace", str(tmp_path / "traces"))
    done = ddpify("profile", tmp_path / "train_ddp.py", *options, "--json")
    assert done.code == 0, done.stderr
    traced = (tmp_path / f"traces/{counts[-1]}-ranks/rank0.json").read_text()
    assert '"cat": "kernel"' in traced
