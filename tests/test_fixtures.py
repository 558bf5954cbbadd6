"""Every bundled script, converted, trains as its original does, and lint finds nothing in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import FIXTURES, Ddpify
from tests.training_runs import Training, TrainingRuns, assert_same_training

NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/train.py"))
NEEDS_CUDA = {"hardcoded_cuda"}
NOT_RESUMABLE = {
    "random_windows": "batches are not taken by a loop",
    "shuffled_slices": "batches are not taken by a loop",
    "trainer_class": "a while loop around the training",
    "truncated_bptt": "batches are not taken by a loop",
}

Originals = Callable[[str], Training]
Convert = Callable[..., Path]


@pytest.fixture(scope="session")
def originals(runs: TrainingRuns) -> Originals:
    """A fixture's original run, made once."""

    @cache
    def original(name: str) -> Training:
        return runs.run(FIXTURES / name / "train.py", cuda_on_cpu=name in NEEDS_CUDA)

    return original


@pytest.fixture
def converted(ddpify: Ddpify, tmp_path: Path) -> Convert:
    """Converts a fixture's script; lint must find nothing in the result."""

    def convert(name: str, *options: str) -> Path:
        out = tmp_path / "train_ddp.py"
        done = ddpify("convert", FIXTURES / name / "train.py", "-o", out, *options)
        assert done.code == 0, done.stderr
        checked = ddpify("lint", out, "--no-cache", "--output-format", "concise")
        assert checked.code == 0, checked.stdout
        return out

    return convert


def test_there_are_fixtures() -> None:
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_converted_trains_the_same(
    name: str, runs: TrainingRuns, originals: Originals, converted: Convert
) -> None:
    """At 2 ranks, those that can be resumed are run with snapshots, in the next test."""
    script = converted(name)
    for world_size in (1, 2, 3) if name in NOT_RESUMABLE else (3,):
        assert_same_training(originals(name), runs.run(script, world_size, beside=FIXTURES / name))


@pytest.mark.parametrize("name", NOT_RESUMABLE)
def test_what_has_no_place_for_snapshots_is_refused(
    name: str, ddpify: Ddpify, tmp_path: Path
) -> None:
    script = FIXTURES / name / "train.py"
    done = ddpify("convert", script, "-o", tmp_path / "train_ddp.py", "--resume")
    assert done.code and NOT_RESUMABLE[name] in done.stderr


@pytest.mark.parametrize("name", sorted(set(NAMES) - NOT_RESUMABLE.keys()))
def test_with_snapshots_trains_the_same(
    name: str, runs: TrainingRuns, originals: Originals, converted: Convert
) -> None:
    """A snapshot after every step changes nothing.

    Snapshots of one rank are tested with the runtime;
    ``python -m benchmarks.every_option`` runs the fixtures with all options at 1, 2 and 3 ranks.
    """
    out = converted(name, "--resume", "--snapshot-steps", "1")
    assert_same_training(originals(name), runs.run(out, 2, beside=FIXTURES / name))


@pytest.mark.parametrize(
    ("name", "world_size"),
    [
        ("batchnorm_cnn", 2),
        ("rnn_language_model", 2),
        ("trainer_class", 2),
        ("two_terms", 3),
        ("weighted_sampler", 2),
    ],
)
def test_sharded_trains_the_same(
    name: str, world_size: int, runs: TrainingRuns, originals: Originals, converted: Convert
) -> None:
    script = converted(name, "--strategy", "fsdp")
    assert_same_training(originals(name), runs.run(script, world_size, beside=FIXTURES / name))


@pytest.mark.parametrize("name", ["functions", "hardcoded_cuda"])
def test_converted_runs_without_torchrun(
    name: str, runs: TrainingRuns, originals: Originals, converted: Convert
) -> None:
    assert_same_training(originals(name), runs.run(converted(name)))


@pytest.mark.torchrun(cold=True)
def test_converted_under_torchrun(
    runs: TrainingRuns, originals: Originals, converted: Convert
) -> None:
    name = "multi_file"
    script = converted(name)
    assert_same_training(originals(name), runs.torchrun(script, 2, beside=FIXTURES / name))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_converted_project_trains_the_same(
    world_size: int, runs: TrainingRuns, ddpify: Ddpify, tmp_path: Path
) -> None:
    project, entry, out = FIXTURES / "trainer_project", "tools/train.py", tmp_path / "out"
    done = ddpify("convert", project, "-o", out, "--entry", entry)
    assert done.code == 0, done.stderr
    original = runs.run(project / entry, project=project)
    assert_same_training(original, runs.run(out / entry, world_size, project=out))
