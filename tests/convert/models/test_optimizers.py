"""Whose parameters an optimizer steps, in the forms in which scripts give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

PARTS = """\
import itertools


def biases(net):
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            yield layer.bias


def each(net):
    for _, layer in net.named_modules():
        for weight in layer.parameters():
            yield weight


other = nn.Linear(3, 3)
"""
FORMS = {
    "chain": "itertools.chain(brain.parameters(), other.parameters())",
    "chain.from_iterable": "itertools.chain.from_iterable([each(brain), each(other)])",
    "lists": "list(brain.parameters()) + list(other.parameters())",
    "groups": "[{'params': biases(brain)}, {'params': biases(other), 'lr': 0.2}]",
    "layers": "[brain.weight, other.weight]",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_model_whose_parameters_are_stepped_is_wrapped(tmp_path: Path, form: str) -> None:
    rule = "rule = torch.optim.SGD(brain.parameters(), lr=0.1)"
    text = HEAD.replace(rule, PARTS + rule.replace("brain.parameters()", FORMS[form]))
    lines = added(tmp_path, text + STEP.replace("brain(a)", "other(brain(a))"))
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
    assert "other = dd.wrap(nn.Linear(3, 3))" in lines


HEADED = """\
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(3, 3))

    def forward(self, rows):
        return rows @ self.kernel


head = Head()
rule = torch.optim.SGD({given}, lr=0.1)
"""


@pytest.mark.parametrize(
    "given",
    [
        "[*brain.parameters(), head.kernel]",
        "[{'params': list(brain.parameters()) + [head.kernel]}]",
        "[{'params': [head.kernel], 'lr': 0.2}, {'params': brain.parameters()}]",
    ],
)
def test_a_parameter_that_is_given_by_its_name_belongs_to_its_model(
    tmp_path: Path, given: str
) -> None:
    step = STEP.replace("brain(a)", "head(brain(a))")
    assert "head = dd.wrap(Head())" in added(tmp_path, HEAD + HEADED.format(given=given) + step)


BORROWED = """\
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.end = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), nn.Linear(3, 9)


class Finder(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.head = base, nn.Linear(3, 3)

    def forward(self, rows):
        return self.head(self.base(rows))


def build():
    base = Whole().body
    return Finder(base)


brain = build()
rule = torch.optim.SGD(
    [{"params": brain.base.parameters(), "lr": 0.01}, {"params": brain.head.parameters()}], lr=0.1
)
"""


def test_a_part_of_another_model_is_wrapped_with_the_one_that_is_called(tmp_path: Path) -> None:
    wraps = [line for line in added(tmp_path, HEAD + BORROWED + STEP) if "dd.wrap" in line]
    assert len(wraps) == 2, wraps  # the first model of all, and this one
    assert not any("Whole" in line or line.startswith("base =") for line in wraps)


KINDS = """\
brain = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
scales = [m.weight for m in brain.modules() if type(m) {asked}]
rest = [m.weight for m in brain.modules() if type(m) is nn.Embedding]
rule = torch.optim.SGD([{{"params": scales}}, {{"params": rest}}], lr=0.1)
"""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("is nn.BatchNorm1d", "== nn.BatchNorm1d"), ("in (nn.BatchNorm1d, nn.BatchNorm2d)", None)],
)
def test_layers_that_are_sorted_by_their_type(
    tmp_path: Path, asked: str, expected: str | None
) -> None:
    lines = added(tmp_path, HEAD + KINDS.format(asked=asked) + STEP)
    found = [line for line in lines if "type(m)" in line]
    line = f"scales = [m.weight for m in brain.modules() if type(m) {expected}]"
    assert found == ([line] if expected else [])
