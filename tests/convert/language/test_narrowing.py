"""Trainers for any number of inputs and outputs, which ask for types and hand tuples on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

START = HEAD[: HEAD.index("brain =")]
CRITERION = """\
class Gap(nn.Module):
    def forward(self, one, two, kinds, average=True):
        gaps = (one - two).pow(2).sum(1) * kinds
        return gaps.mean() if average else gaps.sum()


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, one):
        return self.layer(one), self.layer(2 * one)


brain = Twin()
measure = Gap()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
LOOP = """\
for a, b in feed:
    b = b if len(b) > 0 else None
    if TEST:
        a = (a,)
    out = brain(*a)
    if type(out) not in (tuple, list):
        out = (out,)
    given = out
    if b is not None:
        b = (b,)
        given += b
    penalty = measure(*given)
    penalty = penalty[0] if type(penalty) in (tuple, list) else penalty
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "test",
    [
        "not type(a) in (tuple, list)",
        "type(a) not in [tuple, list]",
        "not isinstance(a, (tuple, list))",
    ],
)
def test_a_trainer_for_any_inputs(tmp_path: Path, test: str) -> None:
    lines = added(tmp_path, START + CRITERION + LOOP.replace("TEST", test))
    reduced = "penalty = dd.mean(penalty[0] if type(penalty) in (tuple, list) else penalty)"
    assert lines[-1] == reduced
    assert not any("dd.global_batch_size" in line for line in lines)


def test_what_holds_for_one_type_stays_in_its_branch(tmp_path: Path) -> None:
    loop = (
        "for a, b in feed:\n"
        "    out = brain(a), brain(a + 1)\n"
        "    if isinstance(out, tuple):\n"
        "        penalty = F.cross_entropy(out[0], b)\n"
        "    else:\n"
        "        penalty = F.cross_entropy(out, b, reduction='sum')\n"
        "    rule.zero_grad()\n"
        "    penalty.backward()\n"
        "    rule.step()\n"
    )
    lines = added(tmp_path, HEAD + loop)
    assert "penalty = dd.mean(F.cross_entropy(out[0], b))" in lines
    assert not any("dd.sum" in line for line in lines)


GRAPH = """\
class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        count, points = x.size(0), x.size(1)
        at = torch.cdist(x, x).topk(2, dim=-1)[1]
        at = (at + torch.arange(0, count).view(-1, 1, 1) * points).view(-1)
        near = x.view(count * points, -1)[at, :]
        near = near.view(count, points, 2, 4)
        both = torch.cat((near - x.unsqueeze(2), near), dim=3)
        return self.layer(both.mean(dim=2)).mean(dim=1)


brain = Near()
"""


def test_a_view_by_the_size_of_the_batch_has_a_row_for_each_sample(tmp_path: Path) -> None:
    """However many rows were picked from the flattened ones: a mean needs no other weight."""
    text = HEAD.replace("brain = nn.Linear(4, 3)\n", GRAPH).replace("(20, 4)", "(20, 5, 4)")
    lines = added(tmp_path, text + STEP)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


DEEP = """\
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(7, 3)

    def forward(self, x):
        one = self.first(x)
        return [one, self.second(torch.cat([x, one], 1))]


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.view(x.size(0), -1))


several = len(__file__) > 20
brain = Deep() if several else Plain()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    if several:
        outs = brain(a)
        penalty = 0
        for out in OUTS:
            penalty += F.cross_entropy(out, b)
        penalty /= len(outs)
    else:
        penalty = F.cross_entropy(brain(a), b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_outputs_that_another_model_gives_alone_are_gone_through_one_by_one(
    tmp_path: Path,
) -> None:
    lines = added(tmp_path, START + DEEP.replace("OUTS", "outs"))
    assert "dd.mean(penalty).backward()" in lines
    assert not any("gather" in line for line in lines)


def test_what_may_be_the_rows_of_all_ranks_is_not_gathered_again(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="rows of all ranks already"):
        added(tmp_path, START + DEEP.replace("OUTS", "[outs[0], *outs[1:]]"))


SIDES = """\
class Sides(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x):
        one = self.first(x)
        aside = (one @ one.t()).logsumexp(1).mean()
        return self.second(one), aside


brain = Sides()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    out, aside = brain(a)
    penalty = F.cross_entropy(out, b) + aside
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def test_layers_of_a_forward_that_work_on_the_rows_of_all_ranks_are_noted(tmp_path: Path) -> None:
    notes = convert_text(tmp_path, START + SIDES).notes
    found = [note.text.split(":")[0] for note in notes if note.attention]
    assert found == ["self.second(one)"]
