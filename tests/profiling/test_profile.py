"""The meter inside ranks that wait on purpose, and the whole command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from ddpify import runtime as dd
from ddpify.convert import convert_file
from ddpify.profiling.meter import LOADER, Meter
from tests.conftest import FIXTURES
from tests.runtime import ranks

NAP = 0.03


class Slow(Dataset[torch.Tensor]):
    """Samples that take a while to make, those of a rank's batch together ``NAP`` seconds."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(NAP / 2)
        return torch.full((3,), float(index))


def _trained() -> Meter:
    ended: list[bool] = []
    meter = Meter(most=5)
    meter.install(lambda _: ended.append(True))
    model = dd.wrap(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in dd.shard(DataLoader(Slow(), batch_size=4)):
        if dd.rank() == 1:
            time.sleep(4 * NAP)
        loss = dd.mean(model(x).pow(2).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert ended == [True]
    del (
        meter.done,
        meter.optimizer,
        meter.wrapped,
        meter.replicated,
    )  # the rest goes to the test's own process
    return meter


def test_waiting_is_measured_by_its_kind() -> None:
    meters = ranks.run(_trained, 2)
    quick, busy = (meter.steps for meter in meters)
    assert len(quick) == len(busy) == 5
    assert all(data >= NAP for _, data, _ in quick[1:] + busy[1:])
    for steps in (quick, busy):
        whole = sum(seconds for seconds, _, _ in steps[1:])
        assert whole * 1.02 >= sum(data + waited for _, data, waited in steps[1:])
    assert sum(waited for _, _, waited in quick[1:]) >= 4 * NAP  # of 16 that rank 1 is behind
    for meter in meters:
        assert meter.samples[1:] == [2] * 4  # this rank's half of a batch
        for (_, data, waited), calls in zip(meter.steps, meter.calls, strict=True):
            assert sum(calls.values()) == pytest.approx(data + waited)
            assert calls[LOADER] == pytest.approx(data)
        assert all(0 <= hidden <= travelled for travelled, hidden in meter.overlap)
        (_, begin, end), *spans = meter.timeline
        assert {kind for kind, _, _ in spans} >= {"data", "backward", "gradients"}
        assert all(begin - 0.01 <= one <= two <= end + 0.01 for _, one, two in spans)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train_ddp.py"
    path.parent.mkdir()
    path.write_bytes(convert_file(FIXTURES / "global_script" / "train.py").data)
    return path


def profile(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ddpify", "profile", script.name, *options]
    env = {**os.environ, "PYTHONPATH": str(FIXTURES.parent)}
    return subprocess.run(
        command, cwd=script.parent, env=env, capture_output=True, text=True, timeout=500
    )


@pytest.mark.torchrun
def test_the_command(script: Path) -> None:
    options = ("--nproc", "2", "--steps", "10", "--warm-up", "2")
    done = profile(script, *options, "--json", "--report", "scaling.html", "--trace", "traces")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["points"]
    assert (found["ranks"], found["steps"]) == (2, 10)
    parts: list[Any] = [found[name] for name in ("compute", "communication", "data")]
    assert all(0 <= part <= 1 for part in parts) and sum(parts) == pytest.approx(1)
    assert found["communication"] > 0 and found["samples"] > 0
    # The script ran in a copy: its checkpoint is not here.
    left = {path.name for path in script.parent.iterdir()}
    assert left == {script.name, "scaling.html", "traces"}
    for rank in range(2):
        trace = json.loads((script.parent / f"traces/2-ranks/rank{rank}.json").read_text())
        names = {event.get("name", "") for event in trace["traceEvents"]}
        assert trace["distributedInfo"]["rank"] == rank
        assert any("all_reduce" in name or "allreduce" in name for name in names)
        assert sum(name.startswith("Optimizer.step") for name in names)
    assert [name for name, _ in found["waits"]] and 0 <= found["hidden"] <= 1
    assert len(found["by_rank"]) == len(found["timelines"]) == 2


def test_a_script_that_is_not_there(script: Path) -> None:
    script.unlink()
    done = profile(script)
    assert done.returncode == 2 and "train_ddp.py: no such script" in done.stderr
