"""A time that is told in days is the same on all ranks; the day of something else says nothing."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

NAMED = """
import datetime
class Film:
    def __init__(self):
        self.year = 1999
film, now = Film(), None
now = datetime.datetime.now()
again = now
os.makedirs(f"runs/{name}", exist_ok=True)
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("{now.strftime('%Y%m%d')}", False),
        ("{again.year}-{now.month}", False),
        ("{now.strftime('%H%M%S')}", True),
        ("{now}-{film.year}", True),
        ("{now}-{now.strftime('%Y%m%d')}", True),
        ("{again.timestamp()}-{now.year}", True),
    ],
)
def test_names_of_days(name: str, found: bool, lint_text: Lint) -> None:
    codes = {one.code for one in lint_text(SETUPS["distributed"] + NAMED.replace("{name}", name))}
    assert ("DDP507" in codes) is found


def test_what_is_taken_away_is_no_run_of_its_own(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + "\nos.remove(f'logs/{time.time()}.log')\n"
    assert not lint_text(text, select=("DDP507",))
    assert lint_text(text.replace("os.remove", "os.makedirs"), select=("DDP507",))
