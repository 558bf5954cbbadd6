"""save() and local_main_first()."""

import io
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ddpify import runtime as dd
from ddpify.runtime import files
from tests.runtime.ranks import launch, run


def test_a_file_is_written_once_and_whole(tmp_path: Path) -> None:
    def job() -> Any:
        target = tmp_path / f"{dd.world_size()}" / "model.pt"
        if dd.is_main():
            target.parent.mkdir()
        dd.barrier()
        for value in (1, 2):  # the second replaces the first
            dd.save({"a": torch.full((3,), value)}, target)
        dd.save(
            torch.ones(2), str(target.with_name("text.pt")), _use_new_zipfile_serialization=False
        )
        # There on every rank when save() returns, and nothing else.
        listed = sorted(os.listdir(target.parent))
        return listed, torch.load(target)["a"].tolist(), target.read_bytes()

    expected = run(job, 1)[0]
    assert expected[:2] == (["model.pt", "text.pt"], [2, 2, 2])
    assert run(job, 3) == [expected] * 3


def test_a_relative_path_and_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.pt").symlink_to(tmp_path / "real" / "target.pt")

    def job() -> None:
        os.chdir(tmp_path)
        dd.save(1, "plain.pt")
        dd.save(2, Path("link.pt"))

    run(job, 2)
    assert torch.load(tmp_path / "plain.pt") == 1
    assert (tmp_path / "link.pt").is_symlink()
    assert torch.load(tmp_path / "real" / "target.pt") == 2


def test_what_other_code_writes_is_written_by_rank_0_after_all_have_read(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"

    def job() -> tuple[str, bool]:
        plain = open
        with dd.main_writes():
            read = log.read_text()
            with open(log, "w") as file:
                file.write("new\n")
            kept = log.open("a")
            counter = (tmp_path / "counter.txt").open("r+")
        print("kept", file=kept, flush=True)
        number = int(counter.read())
        counter.seek(0)
        print(number + 1, end="", file=counter, flush=True)
        return read, open is plain

    for size in (1, 3):
        log.write_text("old")
        (tmp_path / "counter.txt").write_text("3")
        assert run(job, size) == [("old", True)] * size
        assert log.read_text() == "new\nkept\n"
        assert (tmp_path / "counter.txt").read_text() == "4"


def test_a_file_object_is_written_by_rank_0_alone() -> None:
    def job() -> bytes:
        buffer = io.BytesIO()
        dd.save(torch.ones(2), buffer)
        return buffer.getvalue()

    alone = run(job, 1)[0]
    assert run(job, 2) == [alone, b""]


class Unsavable:
    """Fails when it is pickled."""

    def __reduce__(self) -> Any:
        raise ValueError("cannot be saved")


def test_a_failed_save_keeps_the_former_file_and_ends_every_rank(tmp_path: Path) -> None:
    target = tmp_path / "model.pt"

    def job() -> None:
        dd.save("former", target)
        dd.save(Unsavable(), target)

    outcomes = launch(job, 2)
    assert [o.code for o in outcomes] == [1, 1]
    assert "cannot be saved" in outcomes[0].stderr
    assert os.listdir(tmp_path) == ["model.pt"]
    assert torch.load(target) == "former"


def test_a_full_disk_is_said_and_the_former_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model.pt"
    torch.save("former", target)
    monkeypatch.setattr(files, "world_size", lambda: 2)
    monkeypatch.setattr(files, "is_main", lambda: True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large; the former file is as it was: .*model"):
            dd.save(torch.ones(100_000), target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == ["model.pt"]
    assert torch.load(target) == "former"


def test_a_save_takes_away_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / ".saving-model.pt").mkdir()
    (tmp_path / ".saving-model.pt" / "model.pt").write_bytes(b"half of it")
    run(lambda: dd.save(torch.ones(2), tmp_path / "model.pt"), 2)
    assert os.listdir(tmp_path) == ["model.pt"]
    assert torch.equal(torch.load(tmp_path / "model.pt"), torch.ones(2))


def test_the_local_main_rank_goes_first(tmp_path: Path) -> None:
    def job() -> tuple[float, float, float]:
        with dd.local_main_first():
            start = time.monotonic()
            existed = (tmp_path / "data").exists()
            if not existed:
                time.sleep(0.3)
                (tmp_path / "data").touch()
            return start, time.monotonic(), existed

    first, *others = run(job, 3)
    assert not first[2]
    for start, _, existed in others:
        assert existed
        assert start >= first[1]


@pytest.mark.parametrize(("tag", "comes_to"), [("cuda:0", "meta"), ("cpu", "cpu")])
def test_what_a_gpu_saved_comes_to_this_ranks_own(
    tag: str, comes_to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as saving:
        saving.setattr("torch.serialization.location_tag", lambda storage: tag)
        torch.save({"w": torch.ones(2)}, tmp_path / "c.pt")
    monkeypatch.setattr("ddpify.runtime.files.device", lambda: torch.device("meta"))
    assert dd.load(tmp_path / "c.pt", weights_only=True)["w"].device.type == comes_to
