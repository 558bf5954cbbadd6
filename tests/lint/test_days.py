"""A time that is told in days is the same on all ranks; the day of something else says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.runner import lint_files
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


HELPER = """
import torch
def keep(model, folder):
    torch.save(model.module.state_dict(), folder + "/last.pt")
"""
KEPT = """
import datetime
from helper import keep
folder = "runs/" + datetime.datetime.now().strftime("%H%M%S")
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    {guard}keep(model, folder)
"""


@pytest.mark.parametrize(("guard", "found"), [("", True), ("if rank == 0: ", False)])
def test_a_file_of_the_time_that_a_helper_writes(guard: str, found: bool, tmp_path: Path) -> None:
    text = SETUPS["distributed"] + KEPT.replace("{guard}", guard)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(text)
    paths = [tmp_path / "train.py", tmp_path / "helper.py"]
    results = lint_files(paths, Settings(root=tmp_path), cached=False)
    assert ("DDP507" in {one.code for one in results[1][1].found}) is found
