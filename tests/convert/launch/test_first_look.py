"""What trees alone tell of a script is told before anything is interpreted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning import solver
from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, convert_text

DDP = "from torch.nn.parallel import DistributedDataParallel as Wrap\n"
GROUP = """\
import os
import torch.distributed as dist


def start(args):
    args.world = 1
    if "WORLD_SIZE" in os.environ:
        _join(args)


def _join(args):
    dist.init_process_group("gloo")
"""


class Interpreted(Exception):
    """The script was interpreted."""


@pytest.fixture
def uninterpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interpret(*_: object) -> None:
        raise Interpreted

    monkeypatch.setattr(solver, "_interpreted", interpret)


@pytest.mark.usefixtures("uninterpreted")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DDP + HEAD + "brain = Wrap(brain)\n" + STEP, "py:12: it is already distributed"),
        (HEAD + "import accelerate\n" + STEP, "py:11: Accelerate already trains"),
        ("import ddpify.runtime as dd\n" + HEAD + STEP, "py:1: it is already converted"),
        ("import helper\nhelper.show()\n", "it has no training loop"),
        (HEAD + "from helper.deep import start\nstart(1)\n" + STEP, "group.py:12: it is already"),
        (
            HEAD + "import helper.group as g\nif rule:\n    g.start(1)\n" + STEP,
            "group.py:12: it is",
        ),
    ],
)
def test_told_at_once(text: str, message: str, tmp_path: Path) -> None:
    package = tmp_path / "helper"
    package.mkdir()
    (package / "__init__.py").write_text("def show():\n    print(1)\n")
    (package / "deep.py").write_text("from .group import start\n")
    (package / "group.py").write_text(GROUP)
    with pytest.raises(Refusal, match=message):
        convert_text(tmp_path, text)


@pytest.mark.usefixtures("uninterpreted")
@pytest.mark.parametrize(
    "text",
    [
        HEAD + STEP,
        DDP + HEAD + "SPREAD = False\nif SPREAD:\n    brain = Wrap(brain)\n" + STEP,
        DDP + HEAD + "def Wrap(x):\n    return x\nbrain = Wrap(brain)\n" + STEP,
        HEAD + "import trainer; trainer.fit()\n",
        HEAD + "import importlib\nimportlib.import_module('trainer').fit()\n",
    ],
)
def test_left_to_understanding(text: str, tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text("def fit(loss):\n    loss.backward()\n")
    with pytest.raises(Interpreted):
        convert_text(tmp_path, text)
