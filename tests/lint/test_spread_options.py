"""What a wrapper is told in a dictionary that its call spreads."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

STEP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
WRAPS = {
    "in place": 'model = DDP(net, **{"OPTION": VALUE})\n',
    "a name": 'options = {"OPTION": VALUE}\nmodel = DDP(net, **options)\n',
    "dict()": "options = dict(OPTION=VALUE)\nmodel = DDP(net, **options)\n",
    "an entry": 'options = {}\noptions["OPTION"] = VALUE\nmodel = DDP(net, **options)\n',
    "a function": 'def told():\n    return {"OPTION": VALUE}\n\nmodel = DDP(net, **told())\n',
    "an attribute": (
        'class Settings:\n    def __init__(self):\n        self.ddp = {"OPTION": VALUE}\n\n'
        "settings = Settings()\nmodel = DDP(net, **settings.ddp)\n"
    ),
    "a partial call": (
        "import functools\n\nwrap = functools.partial(DDP, OPTION=VALUE)\nmodel = wrap(net)\n"
    ),
}
OPTIONS = {
    "one GPU for all ranks": ("DDP201", "device_ids", "[0]", "[local_rank]"),
    "two GPUs": ("DDP209", "device_ids", "[0, 1]", "[local_rank]"),
    "a global rank": ("DDP203", "device_ids", "[rank]", "[local_rank]"),
    "a search": ("DDP317", "find_unused_parameters", "True", "False"),
}
NOT_FOUND = {
    ("a partial call", code) for code in ("DDP209", "DDP203", "DDP317")
}  # the call that wraps has no such option itself


@pytest.mark.parametrize("told", OPTIONS)
@pytest.mark.parametrize("way", WRAPS)
def test_an_option_out_of_a_dictionary(way: str, told: str, lint_text: Lint) -> None:
    code, name, wrong, right = OPTIONS[told]
    for value, found in ((wrong, (way, code) not in NOT_FOUND), (right, False)):
        text = WRAPS[way].replace("OPTION", name).replace("VALUE", value)
        codes = [one.code for one in lint_text(SETUPS["distributed"] + text + STEP, strict=True)]
        assert (code in codes) is found
