"""Classes that a project's own function imports by a dotted name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert.project import convert_folder
from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, changed_lines

CENTRED = """\
import torch.nn as nn


class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))
"""
TRAINER = """\
class Trainer:
    def __init__(self, net, rule):
        self.net, self.rule = net, rule

    def start(self, feed, measure):
        for a, b in feed:
            self.rule.zero_grad()
            measure(self.net(a), b).backward()
            self.rule.step()
"""
IMPORTING = {
    "sys.modules": """\
    module, _, kind = name.rpartition(".")
    __import__(module)
    try:
        return getattr(sys.modules[module], kind)
    except AttributeError:
        raise ImportError(name)
""",
    "one part after the other": """\
    parts = name.split(".")
    found = __import__(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found
""",
    "the rest put together": """\
    module = ".".join(name.split(".")[:-1])
    return getattr(importlib.import_module(module), name.split(".")[-1])
""",
    "import_module": """\
    module, kind = name.rsplit(".", 1)
    return getattr(importlib.import_module(module), kind)
""",
    "a list of names": """\
    *module, kind = name.split(".")
    return getattr(__import__(".".join(module), fromlist=[kind]), kind)
""",
}


def _converted(folder: Path, importing: str, script: str) -> dict[str, list[str]]:
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("from . import centred, trainer\n")
    (folder / "parts" / "centred.py").write_text(CENTRED)
    (folder / "parts" / "trainer.py").write_text(TRAINER)
    start = f"import importlib\nimport sys\n\n\ndef import_class(name):\n{importing}\n\n"
    (folder / "train.py").write_text(start + script)
    files = convert_folder(folder, [Path("train.py")]).files
    return {path.stem: changed_lines(file)[1] for path, file in files.items()}


@pytest.mark.parametrize("name", IMPORTING)
@pytest.mark.parametrize("given", ["'parts.centred.Net'", "parser.parse_args().net"])
def test_models_that_it_imports_are_read(tmp_path: Path, name: str, given: str) -> None:
    setting = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--net', default='parts.centred.Net')\n"
    )
    made = HEAD.replace("brain = nn.Linear(4, 3)", f"brain = import_class({given})(4, 3)")
    assert made != HEAD
    lines = _converted(tmp_path, IMPORTING[name], setting + made + STEP)
    assert "return super().forward(x - dd.mean(x.mean(0)))" in lines["centred"]


@pytest.mark.parametrize("name", IMPORTING)
def test_trainers_that_it_imports_train(tmp_path: Path, name: str) -> None:
    start = (
        "ways = {'plain': import_class('parts.trainer.Trainer')}\n"
        "ways[sys.argv[1]](brain, rule).start(feed, F.cross_entropy)\n"
    )
    lines = _converted(tmp_path, IMPORTING[name], HEAD + start)
    assert "dd.mean(measure(self.net(a), b), lazy=True).backward()" in lines["trainer"]


CHANGED = """\
    parts = name.split(".")
    parts[-1] = "Other"
    found = __import__(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found
"""


def test_a_list_of_parts_that_is_changed_is_not_known(tmp_path: Path) -> None:
    start = "import_class('parts.trainer.Trainer')(brain, rule).start(feed, F.cross_entropy)\n"
    with pytest.raises(Refusal, match="no training loop"):
        _converted(tmp_path, CHANGED, HEAD + start)
