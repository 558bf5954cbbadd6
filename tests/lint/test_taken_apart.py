"""Elements that are taken out of what a function returns are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
def parts(number):
    return Net().to(number), number, 3

made = parts(local_rank)
{}
for epoch in range(start, epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    torch.save(net.state_dict(), f"model-{{epoch}}.pt")
"""


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ("start = made[2]", True),
        ("start = made[-1]", True),
        ("other, start = made[1:3]", True),
        ("start, other = made[1:3]", False),
        ("start = made[1]", False),
        ("start = made[local_rank]", False),
    ],
)
def test_an_element_has_the_rank_of_its_own_alone(
    lint_text: Lint, taken: str, found: bool, tmp_path: Path
) -> None:
    codes = [one.code for one in lint_text(SETUPS["distributed"] + SCRIPT.format(taken))]
    assert ("DDP501" in codes) is found


STARRED = """
import wandb

class Options:
    pass

options = Options()
pair = 1, 2
{}
with open(options.folder + "/options.json", "w") as file:
    json.dump({{}}, file)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ('options.folder, name, first, last = "runs", wandb.run.name, *pair', True),
        ('name, options.folder, first, last = "runs", wandb.run.name, *pair', False),
        ('first, last, options.folder, name = *pair, "runs", wandb.run.name', True),
        ('first, last, options.folder, name = *pair, wandb.run.name, "runs"', False),
    ],
)
def test_what_stands_beside_a_star_gets_its_own(lint_text: Lint, taken: str, found: bool) -> None:
    codes = [one.code for one in lint_text(SETUPS["distributed"] + STARRED.format(taken))]
    assert ("DDP501" in codes) is found
