from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from ddpify.checking import Report, check
from ddpify.verify import warm_worker
from ddpify.verify.launch.launcher import Worker
from tests.warm import Server, started_warm

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="session")
def worker(server: Server | None) -> Iterator[Worker]:
    with started_warm(server, warm_worker()) as ready:
        yield ready


@pytest.fixture
def shared_worker(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command, too, ask the process that has imported torch already."""
    monkeypatch.setattr("ddpify.checking.api.warm_worker", lambda *_: nullcontext(worker))


@pytest.fixture(autouse=True)
def short_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the time until a hang counts as one."""
    monkeypatch.setattr("ddpify.checking.api.STALL", 4.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with the scripts, as the current one."""
    place = tmp_path / "project"
    shutil.copytree(SCRIPTS, place)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def checked(folder: Path, worker: Worker) -> Callable[..., tuple[Report, list[str]]]:
    """Check a script with some text replaced; the report and the script's lines."""

    def run(
        script: str,
        *edits: tuple[str, str],
        nproc: int = 2,
        timeout: float = 60,
        steps: int | None = None,
    ) -> tuple[Report, list[str]]:
        path = folder / f"{script}.py"
        source = path.read_text()
        for old, new in edits:
            assert source.count(old) == 1, (old, source.count(old))
            source = source.replace(old, new)
        path.write_text(source)
        report = check(Path(path.name), nproc=nproc, steps=steps, timeout=timeout, worker=worker)
        return report, source.splitlines()

    return run
