"""What test files share: the command line in this process, and the runner of scripts."""

from __future__ import annotations

import compileall
import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.training_runs import TrainingRuns, training_runs
from tests.warm import Server, started_warm, warm_processes, warm_server

if TYPE_CHECKING:
    from benchmarks.soundness.trying import Trial

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
LONGEST = (
    "test_running.py",
    "test_planted_in_fixture.py",
    "test_fixtures.py",
    "test_known_forms.py",
    "test_conversions.py",
    "test_planted.py",
)
"""Files that begin first: the last file to begin decides when the last worker ends."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode also where Python is told not to: starting ``ddpify`` takes a third with it."""
    config.option.loadscopereorder = False  # xdist would begin with the files of most tests
    # As ``ddpify.start`` does: looking for garbage among the trees is an eighth of a test's time.
    gc.set_threshold(100_000, 20, 20)
    if not hasattr(config, "workerinput"):
        for package in ("ddpify", "codemods"):
            compileall.compile_dir(ROOT / package, quiet=2)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are processors: many tests wait for a rank that does not come."""
    return (os.cpu_count() or 1) + 1


@dataclass(frozen=True)
class Finished:
    """A finished command."""

    code: int
    stdout: str
    stderr: str


Ddpify = Callable[..., Finished]


@pytest.fixture
def ddpify(capfd: pytest.CaptureFixture[str]) -> Ddpify:
    """``ddpify(*args)`` runs the command line in this process."""

    def run(*args: str | Path) -> Finished:
        from ddpify.cli import main

        capfd.readouterr()
        code = main([*map(str, args)])
        return Finished(code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, server: Server | None) -> Iterator[TrainingRuns]:
    """Runs training scripts in forked ranks."""
    with started_warm(server, training_runs(tmp_path_factory.mktemp("runs"))) as ready:
        yield ready


@pytest.fixture(scope="session")
def trial() -> Iterator[Trial]:
    """Converts scripts, and runs each with its original in standing groups of ranks."""
    from benchmarks.soundness.trying import Trial

    one = Trial(60.0)
    yield one
    one.close()


def pytest_collection_finish() -> None:
    """Look for garbage in what the tests make alone, not in torch and in the test files."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; tests with torchrun are warm, if they are not marked cold."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        marker = item.get_closest_marker("torchrun")
        if marker and not marker.kwargs.get("cold"):
            item.fixturenames.append("warm")  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def server() -> Iterator[Server | None]:
    """A process that has imported torch, to be forked."""
    with warm_server() as ready:
        yield ready


@pytest.fixture
def warm(server: Server | None) -> Iterator[None]:
    """Lets the test start Python with torch imported already."""
    with warm_processes(server):
        yield
