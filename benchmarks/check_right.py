"""Check scripts that are right, and count false alarms.

    python -m benchmarks.check_right [--nproc N] [NAME ...]

The scripts: the converted fixtures, those of ``tests/checking/scripts``, and those of
``benchmarks/right``, which have FSDP2, mixed precision, accumulation, torch.compile, workers and
torch.multiprocessing.spawn, and the ports by hand of ``benchmarks/by_hand``. Everything that check
says of them is printed, for a reader to judge.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from ddpify.checking import check
from ddpify.convert import convert_file
from ddpify.verify import warm_worker
from ddpify.verify.launch.launcher import Worker

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
BY_HAND = (
    *sorted((HERE.parent / "tests" / "checking" / "scripts").glob("*.py")),
    *sorted((HERE / "right").glob("*.py")),
    *sorted((HERE / "by_hand").glob("*_ddp.py")),
)
STEPS = 30
Where = tuple[str, Path]


def scripts() -> list[Where]:
    """All names and places; a fixture's is its folder."""
    fixtures = [(path.parent.name, path.parent) for path in sorted(FIXTURES.glob("*/train.py"))]
    return fixtures + [(path.stem, path) for path in BY_HAND]


def main(nproc: int, names: list[str]) -> None:
    """Print a line for each script, and the number of those with a finding."""
    chosen = [one for one in scripts() if not names or one[0] in names]
    results = []
    with warm_worker() as worker:
        for name, place in chosen:
            results.append(_try(name, place, nproc, worker))
    judged = [one for one in results if one is not None]
    print(f"{len(results)} scripts at {nproc} processes, {len(judged)} judged, "
          f"{sum(map(bool, judged))} with a finding")  # fmt: skip


def _try(name: str, place: Path, nproc: int, worker: Worker) -> int | None:
    """The number of findings; None where the run was not judged."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "project" / "train_ddp.py"
        if place.is_dir():
            shutil.copytree(place, script.parent)
            script.write_bytes(convert_file(script.with_name("train.py")).data)
        else:
            script.parent.mkdir()
            shutil.copy(place, script)
        report = check(script, nproc=nproc, steps=STEPS, timeout=240, worker=worker)
    said = [f"{one.code}:{one.line} {one.message}" for one in report.findings]
    failure = (report.failure or "").strip().splitlines()[-1:]
    print(f"{name} ({report.seconds:.0f} s, {max(report.steps)} steps): "
          f"{said or failure or 'no finding'}", flush=True)  # fmt: skip
    return None if report.failure and not said else len(said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    main(options.nproc, options.names)
