"""broadcast()."""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from ddpify import runtime as dd
from tests.runtime.ranks import run


def test_every_rank_gets_rank_0s_object() -> None:
    def job() -> object:
        return dd.broadcast({"rank": dd.rank(), "path": Path("runs")})

    assert run(job, 3) == [{"rank": 0, "path": Path("runs")}] * 3


def test_a_temporary_folder_stays_until_all_ranks_leave(tmp_path: Path) -> None:
    def job() -> tuple[str, bool, bool]:
        with dd.broadcast(TemporaryDirectory(dir=tmp_path)) as folder:
            if not dd.is_main():
                time.sleep(0.2)  # rank 0 has left by now
            there = os.path.isdir(folder)
        dd.barrier()
        return folder, there, os.path.isdir(folder)

    found = run(job, 3)
    assert found == [(found[0][0], True, False)] * 3
    assert list(tmp_path.iterdir()) == []


def test_one_process_keeps_its_folder() -> None:
    own = TemporaryDirectory()
    assert dd.broadcast(own) is own
    own.cleanup()
