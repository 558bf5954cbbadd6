"""``torchrun ... -m ddpify check``: the script's own job, judged without changing it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ddpify.convert import convert_file
from tests.conftest import FIXTURES

pytestmark = pytest.mark.torchrun


def torchrun(*arguments: str, nproc: int = 2, **variables: str) -> subprocess.CompletedProcess[str]:
    # Nothing is looked up by the machine's own name, which may be slow where there is no network.
    here = ("--standalone", "--local-addr=127.0.0.1")
    command = [sys.executable, "-m", "torch.distributed.run", *here, f"--nproc_per_node={nproc}"]
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables
    }  # fmt: skip
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, env=environment
    )


def seed(path: Path) -> None:
    text = path.read_text().replace(
        "    net = Net()\n", "    torch.manual_seed(3)\n    net = Net()\n"
    )
    path.write_text(
        text.replace("    best = float", "    torch.manual_seed(rank)\n    best = float")
    )


def test_a_checked_run_leaves_the_same_results_to_the_bit(folder: Path) -> None:
    seed(folder / "sampled.py")
    plain = torchrun("sampled.py")
    before = torch.load(folder / "out/best.pt")
    checked = torchrun("-m", "ddpify", "check", "sampled.py")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    after = torch.load(folder / "out/best.pt")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    epochs = [[line for line in run.stdout.splitlines() if line.startswith("epoch")]
              for run in (plain, checked)]  # fmt: skip
    assert len(epochs[0]) == 3
    assert epochs[0] == epochs[1]
    assert "no finding in 12 steps on 2 processes" in checked.stdout


def test_light_finds_a_step_on_one_rank_and_goes_on(folder: Path) -> None:
    path = folder / "sampled.py"
    step = "            optimizer.step()\n"
    changed = f"{step}            if rank == 1: net.last.bias.data.mul_(2)\n"
    path.write_text(path.read_text().replace(step, changed))
    arguments = ("--light", "--steps", "4", "--go-on", "--json", "--sarif", "o.sarif")
    done = torchrun("-m", "ddpify", "check", "sampled.py", *arguments)
    assert "epoch 2" in done.stdout
    report = json.loads(done.stdout[done.stdout.index("{\n") : done.stdout.rindex("\n}") + 2])
    assert [one["code"] for one in report["findings"]] == ["DDP407"]
    results = json.loads((folder / "o.sarif").read_text())["runs"][0]["results"]
    assert [one["ruleId"] for one in results] == ["DDP407"]


def test_a_converted_script_compares_its_first_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where it saves its model
    script = tmp_path / "train_ddp.py"
    script.write_bytes(convert_file(FIXTURES / "batchnorm_cnn" / "train.py").data)
    done = torchrun(str(script), DDPIFY_CHECK="5")
    assert done.returncode == 0, done.stderr
    assert "no finding in 5 steps on 2 processes" in done.stderr


def test_a_single_rank_is_judged_in_its_own_process(folder: Path) -> None:
    done = torchrun("-m", "ddpify", "check", "sampled.py", "--steps", "3", nproc=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no finding in 3 steps on 1 process (" in done.stdout
    assert "running sampled.py" not in done.stderr
