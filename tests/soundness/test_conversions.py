"""Generated scripts are converted and run: none may train or print anything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soundness.kinds import KINDS
from tests.training_runs import ROOT
from tests.warm import Server, warm_processes

SCRIPTS = 130
SEED = 19

# Of so few scripts a single one is nearly a hundredth; over many, fewer crash and are refused.
MOST_CRASHES = 0.01
MOST_REFUSED = 0.05
MOST_UNDIVIDED = 0.03


@dataclass(frozen=True)
class Found:
    """The outcomes of scripts that train, by name, and the rows of the report."""

    counts: Counter[str]
    rows: list[dict[str, Any]]

    def share(self, *outcomes: str) -> float:
        valid = self.counts.total() - self.counts["INVALID"]
        return sum(self.counts[outcome] for outcome in outcomes) / valid

    def forms(self, outcome: str) -> str:
        rows = [row for row in self.rows if row["outcome"] == outcome]
        lines = (f"{row['number']} {row['kind']}: {row['form']}: {row['detail']}" for row in rows)
        return f"seed {SEED}:\n" + "\n".join(lines)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, server: Server | None) -> Found:
    """Tried in a process of its own: it forks, which one that has trained already cannot."""
    path = tmp_path_factory.mktemp("soundness") / "results.json"
    print(f"{SCRIPTS} scripts of seed {SEED}")
    options = [f"--scripts={SCRIPTS}", f"--seed={SEED}", f"--json={path}"]
    with warm_processes(server):
        subprocess.run(
            [sys.executable, "-m", "benchmarks.soundness", *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
            timeout=300,
        )
    rows = json.loads(Path(path).read_text())
    return Found(Counter(row["outcome"] for row in rows), rows)


def test_every_kind_is_tried_and_most_scripts_train(found: Found) -> None:
    assert len(found.rows) == SCRIPTS
    assert {row["kind"] for row in found.rows} == KINDS.keys()
    assert found.counts["INVALID"] < 0.15 * SCRIPTS


def test_scripts_that_train_something_else(found: Found) -> None:
    assert not found.counts["DIFFERENT"], found.forms("DIFFERENT")


def test_scripts_that_crash(found: Found) -> None:
    assert found.share("CRASH", "BROKEN") <= MOST_CRASHES, found.forms("CRASH")


def test_scripts_that_are_refused(found: Found) -> None:
    assert found.share("REFUSED") <= MOST_REFUSED, found.forms("REFUSED")


def test_scripts_whose_work_is_not_divided(found: Found) -> None:
    assert found.share("UNDIVIDED") <= MOST_UNDIVIDED, found.forms("UNDIVIDED")
