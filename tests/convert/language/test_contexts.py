"""What a function makes of one call's arguments is not taken for what it makes of another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.source import read_source
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project
from tests.convert.examples import HEAD, STEP, added, convert_text

LOOP = """\
for a, b in feed:
    rule.zero_grad()
    penalty = {}
    penalty.backward()
    rule.step()
"""


def test_lists_and_loops_of_a_shared_function(tmp_path: Path) -> None:
    helper = """\
def deep(x):
    kept = [x]
    for _ in range(3):
        x = brain(x).repeat(1, 2)[:, :4]
        kept.append(x)
    return kept.pop()


"""
    text = HEAD + helper + LOOP.format("F.cross_entropy(deep(a)[:, :3], b)")
    lines = added(tmp_path, text + "print(deep(torch.ones(2, 4))[0].sum().item())\n")
    assert "penalty = dd.mean(F.cross_entropy(deep(a)[:, :3], b))" in lines
    assert not any("gather" in line or "dd.sum" in line for line in lines)


def test_indices_of_a_shared_function(tmp_path: Path) -> None:
    helper = "def pick(table, which):\n    return table[which]\n\n\n"
    loss = "F.cross_entropy(brain(a) * pick(torch.ones(3), b)[:, None], b)"
    text = HEAD + helper + LOOP.format(loss)
    lines = added(tmp_path, text + "print(pick(torch.ones(3), 1).item())\n")
    assert f"penalty = dd.mean({loss})" in lines
    assert not any("gather" in line for line in lines)


def test_a_loss_that_may_be_none_is_followed(tmp_path: Path) -> None:
    network = """\
class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = brain

    def forward(self, x, y=None):
        out = self.inner(x)
        found = None
        if y is not None:
            found = F.cross_entropy(out, y, ignore_index=-1)
        return out, found


scored = Scored()
rule = torch.optim.SGD(scored.parameters(), lr=0.1)
"""
    loop = LOOP.replace("penalty = {}", "out, penalty = scored(a, b)")
    done = convert_text(tmp_path, HEAD + network + loop)
    assert b"dd.mean(F.cross_entropy(out, y, ignore_index=-1), weight=(y != -1).sum())" in done.data


NESTED = """\
def moved(x):
    if isinstance(x, dict):
        return {k: moved(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [moved(y) for y in x]
    return x.float()


for batch in feed:
    a, b = moved({"rows": [batch]})["rows"][0]
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b.long())
    penalty.backward()
    rule.step()
"""
CHILDREN = """\
class Stages(nn.ModuleDict):
    def forward(self, x):
        seen = {}
        for name, stage in self.named_children():
            x = [one(x) for one in stage] if name == "first" else stage(x)
            seen[name] = x
        return seen["last"]


brain = Stages({"first": nn.ModuleList([nn.Linear(4, 4)]), "last": nn.Linear(4, 3)})
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


def test_a_function_that_calls_itself_for_the_parts_of_a_batch(tmp_path: Path) -> None:
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b.long()))" in added(
        tmp_path, HEAD + NESTED
    )


def test_a_model_that_calls_its_children_does_not_call_itself(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + CHILDREN + STEP)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


INSIDE = """\
def told(x):
    def run():
        return brain(x)

    return run()


for a, b in feed:
    rule.zero_grad()
    penalty = F.cross_entropy(told(a), b)
    penalty.backward()
    rule.step()
print(told(features).sum().item())
"""


def test_a_function_inside_another_reads_what_that_call_of_it_got(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + INSIDE)
    assert "penalty = dd.mean(F.cross_entropy(told(a), b))" in lines
    assert not any("print" in line for line in lines)


MOVED = """\
def moved(x, place):
    if isinstance(x, (list, tuple)):
        return [moved(one, place) for one in x]
    return x.to(place, non_blocking=True)


{}
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for batch in feed:
    a, b = moved(batch, "cpu")
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    ("made", "wrapped"),
    [
        ('brain = moved(brain, "cpu")', 'brain = dd.wrap(moved(brain, "cpu"))'),
        ('moved(brain, "cpu")', "brain = dd.wrap(brain)"),
        ("if len(labels): brain = brain.cuda()", "brain = dd.wrap(brain)"),
    ],
)
def test_a_model_is_wrapped_where_it_alone_is(tmp_path: Path, made: str, wrapped: str) -> None:
    lines = added(tmp_path, HEAD + MOVED.format(made))
    assert wrapped in lines
    assert sum("dd.wrap" in line for line in lines) == 1


FIT = """\
def build():
    return nn.Linear(4, 3)


def fit(count):
    {}
    rule = torch.optim.SGD(made.parameters(), lr=0.1)
    for a, b in feed:
        rule.zero_grad()
        F.cross_entropy(made(a), b).backward()
        rule.step()


"""
EITHER = """\
def main():
    if len(labels) > 9:
        fit(1)
        {}
    fit(2)


main()
"""


def test_models_that_get_names_in_both_branches_are_told_apart(tmp_path: Path) -> None:
    """Each has an optimizer of its own there, so that each is wrapped."""
    made = "made = build().cuda() if torch.cuda.is_available() else build()"
    branch = f"{made}\n        rule = torch.optim.SGD(made.parameters(), lr=0.1)"
    chosen = f"if count > 9:\n        {branch}\n    else:\n        {branch}\n    count = 1"
    text = FIT.replace("    rule = torch.optim.SGD(made.parameters(), lr=0.1)\n", "")
    lines = added(tmp_path, HEAD + text.format(chosen) + "fit(len(labels))\n")
    assert lines.count("made = dd.wrap(made)") == 2


@pytest.mark.parametrize(("end", "count"), [("return", 1), ("pass", 2)])
def test_of_calls_that_exclude_each_other_one_makes_a_model(
    tmp_path: Path, end: str, count: int
) -> None:
    path = tmp_path / "train.py"
    path.write_text(HEAD + FIT.format("made = nn.Linear(4, 3)") + EITHER.format(end))
    facts = interpret(Project(read_source(path)))
    assert sum(bool(model.calls) for model in facts.models) == count
