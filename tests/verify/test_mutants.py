"""The table of bugs to plant into verify itself fits the code.

``python -m benchmarks.verify_mutants`` runs the tests on each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.verify_mutants import MUTANTS, ROOT, Mutant, plant


def test_there_are_enough() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 15


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_has_a_place(mutant: Mutant, tmp_path: Path) -> None:
    target = tmp_path / "ddpify" / "verify" / mutant.file
    target.parent.mkdir(parents=True)
    source = (ROOT / "ddpify" / "verify" / mutant.file).read_text()
    target.write_text(source)
    plant(tmp_path, mutant)
    changed = target.read_text()
    assert changed != source
    compile(changed, mutant.file, "exec")
