"""Every rule that verify names is one that ``ddpify rule`` explains."""

from __future__ import annotations

import re
from pathlib import Path

from ddpify.codes import CODES
from ddpify.verify import ALLOWABLE

PACKAGE = Path(__file__).parents[2] / "ddpify" / "verify"


def test_every_code_has_a_rule() -> None:
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    named = {code for text in texts for code in re.findall(r"\bDDPF?\d+", text)}
    assert len(named) > 30
    assert named <= set(CODES)


def test_documented_names_are_the_allowed_ones() -> None:
    page = (PACKAGE.parents[1] / "docs" / "verify.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(ALLOWABLE)
