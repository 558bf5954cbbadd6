"""The command's options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Ddpify

pytestmark = pytest.mark.usefixtures("warm")


def test_json_and_report(folder: Path, ddpify: Ddpify) -> None:
    done = ddpify("verify", "single.py", "port.py", "--json", "--report", "report.html")
    assert done.code == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["verdict"] == "equivalent"
    assert data["comparisons"][0]["same_arithmetic"] is True
    page = (folder / "report.html").read_text()
    assert "<svg" in page
    assert "single.py" in page


def test_an_allowed_cause_is_no_failure(folder: Path, ddpify: Ddpify) -> None:
    scripts = ("cuda_single.py", "cuda_port.py")
    done = ddpify("verify", *scripts, "--allow", "batchnorm,order")
    assert done.code == 0, done.stderr
    assert "verdict: equivalent except batchnorm (allowed)" in done.stdout
    assert "mixed precision was off" in done.stdout


def test_an_unknown_cause_is_wrong_usage(folder: Path, ddpify: Ddpify) -> None:
    done = ddpify("verify", "single.py", "port.py", "--allow", "luck")
    assert done.code == 2
    assert "use one of order, batch-size, padding, batchnorm" in done.stderr
