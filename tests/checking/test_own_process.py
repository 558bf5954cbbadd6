"""The command starts the process that imports torch itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ddpify

pytestmark = pytest.mark.usefixtures("warm")


def test_a_right_script_exits_with_0(folder: Path, ddpify: Ddpify) -> None:
    before = sorted(path.name for path in folder.rglob("*"))
    done = ddpify("check", "averaged.py", "--steps", "5")
    assert done.code == 0, done.stdout
    assert "no finding in 5 steps on 2 processes" in done.stdout
    assert sorted(path.name for path in folder.rglob("*")) == before
