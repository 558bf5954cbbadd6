"""Objects that a script makes by names out of its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert.project import convert_folder
from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, added, changed_lines, convert_text

NETS = "import torch.nn as nn\n\n\nclass Small(nn.Linear):\n    pass\n"
LOSSES = """\
import torch.nn.functional as F


def entropy(x, y):
    return F.cross_entropy(x, y, reduction="sum")
"""
DATA = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


class Rows(DataLoader):
    def __init__(self, size):
        data = TensorDataset(torch.randn(20, 4), torch.randint(0, 3, (20,)))
        super().__init__(data, batch_size=size)
"""
TRAIN = """\
import importlib
import json

import torch
import data
import losses
import nets


class Settings:
    def __init__(self, given):
        self.given = given

    @classmethod
    def read(cls, path):
        return cls(json.load(open(path)))

    def make(self, name, module, *args):
        return getattr(module, self.given[name])(*args)


settings = Settings.read("settings.json")
{0}
for a, b in feed:
    rule.zero_grad()
    penalty = measure(brain(a), b)
    penalty.backward()
    rule.step()
"""
MADE = {
    "by a setting": (
        'feed = settings.make("data", data, 4)\nbrain = settings.make("net", nets, 4, 3)\n'
        'measure = getattr(losses, settings.given["loss"])\n'
        'rule = settings.make("rule", torch.optim, brain.parameters())'
    ),
    "by their names": (
        'feed = eval("data").Rows(4)\nbrain = importlib.import_module("nets").Small(4, 3)\n'
        'measure = getattr(losses, "entropy")\n'
        "rule = torch.optim.SGD(brain.parameters(), lr=0.1)"
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_objects_are_found(tmp_path: Path, name: str) -> None:
    texts = {"train": TRAIN.format(MADE[name]), "nets": NETS, "losses": LOSSES, "data": DATA}
    for module, text in texts.items():
        (tmp_path / f"{module}.py").write_text(text)
    files = convert_folder(tmp_path, [Path("train.py")]).files
    lines = changed_lines(files[Path("train.py")])[1]
    assert "penalty = dd.sum(measure(brain(a), b), lazy=True)" in lines
    for called in ("dd.shard(", "dd.wrap("):
        assert len([line for line in lines if called in line]) == 1
    assert not any("dd." in files[path].data.decode() for path in files if path.stem == "nets")


def test_models_that_an_inner_function_builds(tmp_path: Path) -> None:
    """What it returns is one model here, another there; the names around it are told apart."""
    made = """\
def main():
    def build(frozen=False):
        net = nn.Linear(4, 3)
        net.requires_grad_(not frozen)
        return net

    brain, first = build(), build(frozen=True)
    rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
    start = HEAD[: HEAD.index("brain =")]
    step = "".join(f"    {line}\n" for line in STEP.splitlines())
    lines = added(tmp_path, start + made + step + "main()\n")
    assert "brain = dd.wrap(brain)" in lines


REGULARISED = """\
class Noted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.drop = nn.Linear(4, 3), nn.Dropout(0.3)

    def forward(self, rows):
        return self.drop(self.body(rows))


brain = Noted()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


def test_the_forward_of_a_model_is_its_call(tmp_path: Path) -> None:
    text = HEAD + REGULARISED + STEP
    plain = added(tmp_path, text)
    named = added(tmp_path, text.replace("brain(a)", "brain.forward(a)"))
    assert [line.replace("brain.forward(a)", "brain(a)") for line in named] == plain


def test_the_forward_of_a_loss_is_its_call(tmp_path: Path) -> None:
    text = HEAD + REGULARISED + STEP.replace("F.cross_entropy(", "nn.CrossEntropyLoss()(")
    plain = added(tmp_path, text)
    named = added(tmp_path, text.replace("Loss()(", "Loss().forward("))
    assert [line.replace("Loss().forward(", "Loss()(") for line in named] == plain


def test_a_layer_in_a_sequential_is_no_model_of_its_own(tmp_path: Path) -> None:
    body = REGULARISED.replace(
        "brain = Noted()", "brain = nn.Sequential(nn.BatchNorm1d(4), Noted())"
    )
    wraps = [line for line in added(tmp_path, HEAD + body + STEP) if "dd.wrap" in line]
    assert wraps[1:] == ["brain = dd.wrap(nn.Sequential(nn.BatchNorm1d(4), Noted()))"]


TRAINER = """\
import torch.nn.functional as F


class Trainer:
    def __init__(self, net, rule):
        self.net, self.rule = net, rule

    def step(self, a, b):
        self.rule.zero_grad()
        penalty = F.cross_entropy(self.net(a), b{0})
        penalty.backward()
        self.rule.step()
"""
CHOSEN = {
    "a module by its name": ('importlib.import_module("ways." + input()).Trainer', "one two"),
    "in an f-string": ('importlib.import_module(f"ways.{input()}").Trainer', "one two"),
    "by a pattern": ('importlib.import_module("ways.%s" % input()).Trainer', "one two"),
    "of several parts": ('importlib.import_module("ways.o" + input() + "e").Trainer', "one"),
    "of the script's names": ("globals()[input()]", "one"),
    "of a module's names": ("vars(two)[input()]", "two"),
    "two of one name": ("(first if input() else two).Trainer", "one two"),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_trainers_that_a_setting_chooses(tmp_path: Path, name: str) -> None:
    imports = "import importlib\nfrom ways import one as first, two\nfrom ways.one import Trainer\n"
    made, ways = CHOSEN[name]
    loop = f"trainer = {made}(brain, rule)\nfor a, b in feed:\n    trainer.step(a, b)\n"
    (tmp_path / "train.py").write_text(imports + HEAD + loop)
    (tmp_path / "ways").mkdir()
    for way, how in (("one", ""), ("two", ', reduction="sum"')):
        (tmp_path / "ways" / f"{way}.py").write_text(TRAINER.format(how))
    files = convert_folder(tmp_path, [Path("train.py")]).files
    lines = {path.stem: changed_lines(file)[1] for path, file in files.items()}
    losses = {
        "one": "penalty = dd.mean(F.cross_entropy(self.net(a), b), lazy=True)",
        "two": 'penalty = dd.sum(F.cross_entropy(self.net(a), b, reduction="sum"), lazy=True)',
    }
    for way, loss in losses.items():
        assert (loss in lines.get(way, ())) == (way in ways.split())


NUMBERED = """\
class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(2):
            setattr(self, SET, Centred())
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        for i in range(2):
            x = GET(x)
        return self.out(x)


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


brain = Pairs()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("set_", "get"),
    [
        ('"step" + str(i)', 'getattr(self, "step" + str(i))'),
        ('f"step{i}"', 'getattr(self, f"step{i}")'),
        ('"step%d" % i', "self.step0"),
        ('"step{}".format(i)', "self.step1"),
        ('"step0"', 'getattr(self, f"step{i}")'),
    ],
)
def test_layers_by_names_that_are_put_together(tmp_path: Path, set_: str, get: str) -> None:
    text = HEAD + NUMBERED.replace("SET", set_).replace("GET", get) + STEP
    assert "return x - dd.mean(x.mean(0))" in added(tmp_path, text)


BY_ITS_NAME = """\
import argparse
from functools import partial


class Small(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.body = nn.Linear(width, 3)

    def forward(self, rows):
        return self.body(rows)


def step(net, rows, truth):
    penalty = F.cross_entropy(net(rows), truth)
    penalty.backward()
    return penalty


def scaled(factor, net, rows, truth):
    return factor * F.cross_entropy(net(rows), truth, reduction="sum")


half = partial(scaled, 0.5)
parser = argparse.ArgumentParser()
parser.add_argument("--net", default="Small")
setting = parser.parse_args().net
"""
LOOP = """\
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    step(brain, a, b)
    rule.step()
"""


@pytest.mark.parametrize("given", ["", "4", "width=4"])
def test_a_name_stands_for_what_takes_the_arguments(tmp_path: Path, given: str) -> None:
    """A helper of the training, which is one of the names in the module, is no model."""
    start = HEAD[: HEAD.index("brain =")]
    made = f"brain = globals()[setting]({given})\n"
    lines = added(tmp_path, start + BY_ITS_NAME + made + LOOP)
    assert "penalty = dd.mean(F.cross_entropy(net(rows), truth))" in lines
    assert f"brain = dd.wrap(globals()[setting]({given}))" in lines


def test_what_has_some_of_its_arguments_is_called_with_the_rest(tmp_path: Path) -> None:
    """It may be meant as well as the other: a sum here, a mean there."""
    body = STEP.replace("F.cross_entropy(brain(a), b)", "globals()[setting](brain, a, b)")
    text = HEAD + BY_ITS_NAME.replace("    penalty.backward()\n", "") + body
    with pytest.raises(Refusal, match="for another call"):
        convert_text(tmp_path, text)


@pytest.mark.parametrize(
    "made", ["brain, _, before = maker.build('small')", "brain = maker.build('small')[0]"]
)
def test_one_of_several_results_is_a_model_if_its_parameters_are_asked_for(
    tmp_path: Path, made: str
) -> None:
    head = "import maker\n" + HEAD.replace("brain = nn.Linear(4, 3)", f"{made}\nbrain.to('cuda')")
    lines = added(tmp_path, head + STEP)
    assert [line for line in lines if "dd.wrap" in line] == ["brain = dd.wrap(brain)"]


def test_a_list_of_parameters_is_not_the_model(tmp_path: Path) -> None:
    """What is done to parameters in a list says nothing of where the model has its name."""
    listed = "parts = [one for _, one in brain.named_parameters()]\n"
    text = (
        HEAD
        + listed
        + STEP.replace("for a", "for one in parts:\n    one.requires_grad = True\nfor a")
    )
    lines = added(tmp_path, text)
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
