"""Every option of the other launchers is one of `ddpify run`, or is answered with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from ddpify.cli.app import app
from ddpify.cli.other_launchers import remedy_for
from tests.conftest import Ddpify

LISTED = Path(__file__).with_name("launcher_options.txt").read_text().splitlines()
OPTIONS = sorted({word for line in LISTED for word in line.split() if word.startswith("--")})


class Unknown(Exception):
    def __init__(self, option: str) -> None:
        self.option_name = option
        self.ctx = type("Context", (), {"info_name": "run"})


def test_all_are_known_or_answered() -> None:
    group: object = get_command(app)
    parameters = group.commands["run"].params  # type: ignore[attr-defined]
    known = {flag for one in parameters for flag in one.opts}
    assert len(OPTIONS) > 150
    answered = {one: remedy_for(Unknown(one)) for one in OPTIONS if one not in known}
    assert [one for one, remedy in answered.items() if not remedy or "after --:" in remedy] == []


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("--num_processes", "give those of one node, --nproc"),
        ("--deepspeed_config_file", "convert --strategy fsdp shards models"),
        ("--rdzv-conf", "ddpify run --dry-run prints the torchrun command"),
        ("--lr", "options of the script go after --: ddpify run SCRIPT -- --lr"),
    ],
)
def test_what_is_said(option: str, remedy: str, ddpify: Ddpify) -> None:
    done = ddpify("run", "train_ddp.py", option, "1")
    assert done.code == 2 and "remedy: " in done.stderr and remedy in done.stderr
