from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpify.verify import Verdict, verify, warm_worker
from ddpify.verify.launch.launcher import Worker
from tests.warm import Server, started_warm

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="session")
def worker(server: Server | None) -> Iterator[Worker]:
    with started_warm(server, warm_worker()) as ready:
        yield ready


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with the scripts, as the current one."""
    place = tmp_path / "work" / "project"
    shutil.copytree(SCRIPTS, place)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def mutant(folder: Path, worker: Worker) -> Callable[..., Verdict]:
    """Verify port.py with some text replaced, at 2 processes, against single.py."""

    def run(*edits: tuple[str, str], **options: Any) -> Verdict:
        source = (folder / "port.py").read_text()
        for old, new in edits:
            assert old in source
            source = source.replace(old, new)
        (folder / "mutant.py").write_text(source)
        options = {"timeout": 60, "worker": worker, **options}
        return verify(Path("single.py"), Path("mutant.py"), **options)

    return run
