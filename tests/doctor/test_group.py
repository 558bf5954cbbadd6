"""The ranks' tests of each other, and the whole command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ddpify import runtime as dd
from ddpify.doctor import group, links, shared_folder
from ddpify.doctor.findings import Finding, Level
from tests.conftest import FIXTURES
from tests.runtime import ranks


def _tested() -> list[Finding]:
    return list(group._tests(torch.device("cpu"), dd.rank(), dd.world_size()))


def _right() -> list[Finding]:
    return _tested()


def _late() -> list[Finding]:
    if dd.rank() == 1:
        now = time.time
        group.time.time = lambda: now() + 3.0  # type: ignore[attr-defined]
    return _tested()


def _wrong() -> list[Finding]:
    real = dist.all_reduce

    def lossy(tensor: torch.Tensor, *args: Any) -> None:
        real(tensor, *args)
        tensor[-1:] += 1

    dist.all_reduce = lossy  # type: ignore[assignment]
    return _tested()


def serious(found: list[Finding]) -> list[str]:
    return [one.message for one in found if one.level is not Level.NOTE]


def test_ranks_that_work() -> None:
    found = ranks.run(_right, 3)[0]
    assert serious(found) == []
    assert found[0].message.startswith("3 ranks on 1 node(s)")


def _as_if_on_nodes() -> list[Finding]:
    names = [f"node{rank}" for rank in range(dd.world_size())]
    found = list(links.check_links(torch.device("cpu"), dd.rank(), names))
    return found + list(shared_folder.check_folder(dd.rank(), names))


def test_pairs_and_the_shared_folder() -> None:
    pairs, *_, folder = ranks.run(_as_if_on_nodes, 3)[0]
    assert re.fullmatch(r"3 pairs of ranks: \S+ to \S+ GB/s, median \S+", pairs.message)
    assert folder.message.startswith(f"{os.getcwd()} is the same on all nodes (")


def test_a_clock_that_is_ahead() -> None:
    found = serious(ranks.run(_late, 2)[0])
    assert len(found) == 1
    assert 2900 < float(found[0].split()[-2]) < 3100, found


def test_wrong_sums() -> None:
    found = serious(ranks.run(_wrong, 2)[0])
    assert "an all-reduce of torch.int64 gives wrong sums" in found


@pytest.mark.torchrun
def test_the_command() -> None:
    env = {**os.environ, "PYTHONPATH": str(FIXTURES.parent), "NCCL_P2P_DISABLE": "1"}
    command = [sys.executable, "-m", "ddpify", "doctor", "--nproc", "2", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    found = [Finding.from_json(one) for one in json.loads(done.stdout)["findings"]]
    assert any(one.message.startswith("2 ranks on 1 node(s)") for one in found)
    assert any("NCCL_P2P_DISABLE=1" in text for text in serious(found))
