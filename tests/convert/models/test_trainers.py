"""Trainers: objects that get a model, move and train it, and give it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added, convert_text

TRAINER = """\
class {name}:
    def train(self, net):
        net = net.to("cpu")
        rule = torch.optim.SGD(net.parameters(), lr=0.1)
        for a, b in feed:
            rule.zero_grad()
            F.cross_entropy(net(a), b).backward()
            rule.step()
        return net


"""
METHOD = """\
def built(kind):
    assert kind in ("small", "large")
    made = None
    if kind == "small":
        made = nn.Linear(4, 3)
    if kind == "large":
        made = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    return made


class Method:
    def __init__(self):
        self.kind = self.net = self.other = None

    def build(self, kind):
        self.kind = kind
        self.net = built(kind)

    def pretrain(self):
        self.other = built(self.kind)
        self.other = First().train(self.other)

    def fit(self):
        self.net = Second().train(self.net)


def main(kind):
    method = Method()
    method.build(kind)
    method.pretrain()
    method.fit()


"""


def test_models_that_trainers_train_are_wrapped_before(tmp_path: Path) -> None:
    """Also those of a kind that is None at first, and then nothing that is known."""
    text = HEAD.replace("import torch\n", "import click\nimport torch\n", 1)
    text += TRAINER.format(name="First") + TRAINER.format(name="Second")
    text += METHOD.replace("def main", "@click.command()\ndef main") + "main()\n"
    lines = added(tmp_path, text)
    assert not any("dd.wrap(" in line and "train(" in line for line in lines)
    wraps = ("self.net = dd.wrap(self.net)", 'net = dd.wrap(net.to("cpu"))')
    assert any(line in wraps for line in lines)
    assert "self.other = dd.wrap(self.other)" in lines


FACTORIES = """\
def small():
    return nn.Linear(4, 3)


def with_loss():
    return nn.Linear(4, 3), nn.CrossEntropyLoss()


def either(name):
    if name == "small":
        return small()
    return with_loss()[0]


def train(net):
    rule = torch.optim.SGD(net.parameters(), lr=0.1)
    for a, b in feed:
        rule.zero_grad()
        F.cross_entropy(net(a), b).backward()
        rule.step()


"""


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("train(with_loss()[0])", ["return dd.wrap(nn.Linear(4, 3)), nn.CrossEntropyLoss()"]),
        ("train(small())\ntrain(small())", ["train(dd.wrap(small()))"] * 2),
        (
            "train(either(str(feed)))",
            [
                "return dd.wrap(nn.Linear(4, 3))",
                "return dd.wrap(nn.Linear(4, 3)), nn.CrossEntropyLoss()",
            ],
        ),
    ],
)
def test_models_without_a_name(tmp_path: Path, call: str, wanted: list[str]) -> None:
    lines = added(tmp_path, HEAD.split("brain")[0] + FACTORIES + call + "\n")
    assert [line for line in lines if "dd.wrap(" in line] == wanted


def test_a_model_that_a_branch_makes_has_the_name_that_it_gets(tmp_path: Path) -> None:
    made = "if torch.cuda.is_available():\n    brain = nn.Linear(4, 3).cuda()\nelse:\n"
    text = HEAD.replace("brain = nn.Linear(4, 3)\n", made + "    brain = nn.Linear(4, 3)\n")
    shown = "print(brain(features[:1]).shape)\n"
    assert "brain = dd.wrap(brain)" in added(tmp_path, text + shown + STEP)


KEPT = """\
class Kept:
    def __init__(self, net, ids):
        self.net = net.to("cpu")
        BRANCH

    def train(self):
        for a, b in feed:
            rule.zero_grad()
            F.cross_entropy(self.net(a), b).backward()
            rule.step()


Kept(brain, list(range(torch.cuda.device_count()))).train()
"""


@pytest.mark.parametrize(
    ("branch", "left"),
    [
        (
            "if len(ids) > 1:\n            self.net = nn.DataParallel(net, device_ids=ids)",
            "if len(ids) > 1:\n            self.net = net\n        self.net = dd.wrap(self.net)",
        ),
        ("if ids:\n            self.net = net.to('cuda')", "self.net = dd.wrap(self.net)"),
    ],
)
def test_a_model_in_an_attribute_that_its_function_only_sets(
    tmp_path: Path, branch: str, left: str
) -> None:
    text = HEAD + KEPT.replace("BRANCH", branch)
    done = convert_text(tmp_path, text).data.decode()
    assert left in done
    assert done.count("dd.wrap(") == 1
