"""Batches of two loaders in one step: each reduction uses its own, unless all have one size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpify.planning.conversion_options import Options
from ddpify.planning.loader_order import switch_batches
from ddpify.planning.refusals import Refusal
from ddpify.planning.solver import make_plan
from ddpify.source import read_source
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project
from tests.convert.examples import HEAD, added, convert_text

SHARED = "shared = TensorDataset(features, labels)\n"
BODY = """\
    rule.zero_grad()
    one = F.cross_entropy(brain(a), b)
    two = brain(c).pow(2).mean()
    (one + two).backward()
    rule.step()
"""
ZIPPED = "for (a, b), (c, d) in zip(left, right):\n" + BODY
CYCLED = "for (a, b), (c, d) in zip(left, itertools.cycle(right)):\n" + BODY
ASKED = "more = iter(right)\nfor a, b in left:\n    c, d = next(more)\n" + BODY
ENDLESS = (
    "def endless(loader):\n    while True:\n        yield from loader\n\n\n"
    "more = endless(right)\nfor a, b in left:\n    c, d = next(more)\n"
) + BODY


def script(left: str, right: str, loop: str) -> str:
    """The example with two loaders over one data set."""
    lines = f"left = DataLoader(shared, {left})\nright = DataLoader(shared, {right})\n"
    return (
        HEAD.replace("import torch\n", "import itertools\nimport torch\n", 1).replace(
            "brain =", f"{SHARED}{lines}brain =", 1
        )
        + loop
    )


@pytest.mark.parametrize("loop", [ZIPPED, CYCLED, ASKED, ENDLESS])
@pytest.mark.parametrize("right", ["batch_size=4", "batch_size=6, drop_last=True"])
def test_a_step_goes_by_each_batch_in_turn(tmp_path: Path, loop: str, right: str) -> None:
    lines = added(tmp_path, script("batch_size=6", right, loop))
    step = lines[lines.index("dd.use_batch_of(left)") :]
    assert step == [
        "dd.use_batch_of(left)",
        "one = dd.mean(F.cross_entropy(brain(a), b))",
        "dd.use_batch_of(right)",
        "two = dd.mean(brain(c).pow(2).mean())",
    ]


def test_a_line_that_counts_both_batches_names_the_loader(tmp_path: Path) -> None:
    loop = ZIPPED + "    print(len(a), len(c))\n"
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", loop))
    counts = "dd.global_batch_size(a, of=left), dd.global_batch_size(c)"
    assert lines[-1] == f"print({counts})"


def test_rows_are_drawn_and_ordered_in_turn(tmp_path: Path) -> None:
    drawn = "    c = c + torch.rand(len(c), 1)\n    a = a[torch.randperm(len(a))]\n"
    lines = added(
        tmp_path, script("batch_size=6", "batch_size=4", ZIPPED.replace(BODY, drawn + BODY))
    )
    step = lines[lines.index("c = c + dd.split(torch.rand(dd.global_batch_size(c), 1))") :]
    assert step[1:3] == [
        "dd.use_batch_of(left)",
        "a = dd.split(dd.gather(a)[torch.randperm(dd.global_batch_size(a))])",
    ]
    assert step.count("dd.use_batch_of(left)") == 1


JOINED = """\
    out = brain(torch.cat([a, c]))
    side = torch.cat([torch.ones(a.size(0)), torch.zeros(len(c))])
    one = F.cross_entropy(out[: len(a)], b)
    two = F.binary_cross_entropy_with_logits(out[:, 0], side)
    rest = out[len(a) :].pow(2).mean()
    (one + two + rest).backward()
"""


@pytest.mark.parametrize("loop", [ZIPPED, ASKED])
def test_batches_that_are_joined(tmp_path: Path, loop: str) -> None:
    text = script("batch_size=6", "batch_size=4", loop.replace(BODY, JOINED))
    lines = added(tmp_path, text)
    loss = "F.binary_cross_entropy_with_logits(out[:, 0], side)"
    assert lines[-3:] == [
        "one = dd.mean(F.cross_entropy(out[: len(a)], b), of=left)",
        f"two = dd.mean({loss}, weight=len(side))",
        "rest = dd.mean(out[len(a) :].pow(2).mean())",
    ]
    assert "right = dd.shard(DataLoader(shared, batch_size=4), joined=True)" in lines


def test_the_loader_is_named_where_the_loop_is(tmp_path: Path) -> None:
    step = """\
def train(source, target):
    for (a, b), (c, d) in zip(source, target):
        rule.zero_grad()
        one = F.cross_entropy(brain(a), b)
        two = brain(c).pow(2).mean()
        (one + two).backward()
        rule.step()
"""
    text = script("batch_size=6", "batch_size=4", f"{step}\n\ntrain(left, right)\n")
    assert "dd.use_batch_of(source)" in added(tmp_path, text)
    unnamed = text.replace("zip(source,", "zip(DataLoader(shared, batch_size=6),")
    assert "dd.use_batch_of(a)" in added(tmp_path, unnamed)  # where it has none, rows have


def test_a_model_and_a_gather_in_one_line_go_back_to_one_batch(tmp_path: Path) -> None:
    body = (
        "    one = brain(a)\n    two = brain(c)\n"
        "    (F.cross_entropy(one, b) + torch.cdist(one, two).mean()).backward()\n"
    )
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", ASKED.replace(BODY, body)))
    assert lines[lines.index("dd.use_batch_of(right)") + 1] == "two = dd.gather(brain(c))"


def test_one_line_for_two_batches(tmp_path: Path) -> None:
    both = ZIPPED.replace("    two = brain(c).pow(2).mean()\n", "").replace("(one + two)", "one")
    text = both.replace("brain(a), b)", "brain(a), b) + brain(c).pow(2).mean()")
    with pytest.raises(Refusal, match="another number of samples") as caught:
        convert_text(tmp_path, script("batch_size=6", "batch_size=4", text))
    assert "in lines of their own" in str(caught.value)
    summed = ZIPPED.replace("(one + two)", "sum([one, two])")
    with pytest.raises(Refusal, match="computed from the batches of two loaders"):
        convert_text(tmp_path, script("batch_size=6", "batch_size=4", summed))


@pytest.mark.parametrize("loop", [ZIPPED, CYCLED, ASKED, ENDLESS])
@pytest.mark.parametrize("size", ["batch_size=6, drop_last=True", "batch_size=1"])
def test_batches_of_one_size(tmp_path: Path, loop: str, size: str) -> None:
    lines = added(tmp_path, script(size, f"shuffle=True, {size}", loop))
    assert any("dd.mean(one + two)" in line for line in lines)


@pytest.mark.parametrize("how", ["(brain(a) - brain(c)).pow(2).mean()", "F.mse_loss(brain(a), c)"])
def test_batches_whose_rows_are_combined_are_of_one_size(tmp_path: Path, how: str) -> None:
    loop = ZIPPED.replace("brain(c).pow(2).mean()", how)
    lines = added(tmp_path, script("batch_size=8", "batch_size=n, shuffle=True", loop))
    assert "right = dd.shard(DataLoader(shared, batch_size=n, shuffle=True))" in lines


def test_two_loaders_over_one_data_set_in_step(tmp_path: Path) -> None:
    lines = added(tmp_path, script("batch_size=6", "batch_size=6, shuffle=True", ZIPPED))
    assert any("dd.mean(one + two)" in line for line in lines)
    lines = added(tmp_path, script("batch_size=6", "batch_size=6, shuffle=True", ASKED))
    assert "dd.use_batch_of(right)" in lines


def test_a_validation_inside_the_training_loop(tmp_path: Path) -> None:
    inner = BODY.replace("    two = brain(c).pow(2).mean()\n", "").replace("(one + two)", "one")
    inner += "    for c, d in right:\n        print(brain(c).argmax(1).eq(d).sum().item())\n"
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", f"for a, b in left:\n{inner}"))
    assert any("dd.sum(" in line for line in lines)


def test_repeated_batches_keep_their_shares(tmp_path: Path) -> None:
    loop = "more = itertools.cycle(left)\nfor step in range(9):\n    a, b = next(more)\n"
    loop += BODY.replace("brain(c)", "brain(a)")
    lines = added(tmp_path, script("batch_size=6", "batch_size=6", loop))
    assert "more = dd.cycle(left)" in lines


EITHER = """\
lefts, rights = iter(left), iter(right)
for step in range(9):
    for name in ("left", "right"):
        source = lefts if name == "left" else rights
        try:
            a, b = next(source)
        except StopIteration:
            if name == "left":
                lefts = iter(left)
                a, b = next(lefts)
            else:
                rights = iter(right)
                a, b = next(rights)
"""


def test_loaders_that_take_turns(tmp_path: Path) -> None:
    inner = BODY.replace("brain(c)", "brain(a)").replace("    ", " " * 8)
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", EITHER + inner))
    assert any("dd.mean(one + two)" in line for line in lines)


STEP_BODY = BODY.replace("    two = brain(c).pow(2).mean()\n", "").replace("(one + two)", "one")
READ = "    print(F.cross_entropy(brain(c), d).item())\n"
FIRST = f"for a, b in left:\n    c, d = next(iter(right))\n{STEP_BODY}{READ}"
KEPT = f"more = iter(right)\nfor a, b in left:\n    c, d = next(more)\n{STEP_BODY}{READ}"
BESIDE = f"for (a, b), (c, d) in zip(left, right):\n{STEP_BODY}{READ}"
LAST = f"for a, b in left:\n{STEP_BODY}    c, d = next(iter(right))\n{READ}"
FIXED = (
    f"c, d = next(iter(right))\nfor epoch in range(2):\n    for a, b in left:\n"
    f"{STEP_BODY.replace('    ', ' ' * 8)}{READ}"
)


@pytest.mark.parametrize("loop", [FIRST, KEPT, BESIDE])
def test_batches_that_a_step_takes_besides_its_own_are_whole(tmp_path: Path, loop: str) -> None:
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", loop))
    assert "right = dd.replicate(DataLoader(shared, batch_size=4), aside=True)" in lines
    assert any("dd.mean(F.cross_entropy(brain(a), b))" in line for line in lines)
    assert not any("brain(c)" in line for line in lines)


@pytest.mark.parametrize("loop", [FIRST, KEPT])
def test_batches_of_one_size_are_split_wherever_they_are_taken(tmp_path: Path, loop: str) -> None:
    lines = added(tmp_path, script("batch_size=1", "batch_size=1", loop))
    assert "right = dd.shard(DataLoader(shared, batch_size=1))" in lines


def test_a_batch_that_is_taken_at_the_end_of_a_step_is_split(tmp_path: Path) -> None:
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", LAST))
    assert "right = dd.shard(DataLoader(shared, batch_size=4))" in lines
    assert "print(dd.mean(F.cross_entropy(brain(c), d)).item())" in lines


def test_a_batch_that_is_kept_from_before_the_training_is_whole(tmp_path: Path) -> None:
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", FIXED))
    assert "right = dd.replicate(DataLoader(shared, batch_size=4))" in lines


def test_a_function_for_the_steps_batch_and_one_beside_it(tmp_path: Path) -> None:
    head = "def hits(x, y):\n    return (brain(x).argmax(1) == y).sum().item()\n\n\n"
    loop = FIRST.replace(READ, "    print(hits(a, b), hits(c, d))\n")
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", head + loop))
    assert "right = dd.replicate(DataLoader(shared, batch_size=4), aside=True)" in lines
    assert "print(hits(dd.gather(a), dd.gather(b)), hits(c, d))" in lines
    assert "return (dd.spread(brain)(x).argmax(1) == y).sum().item()" in lines


def test_a_batch_that_is_used_after_another_one_came(tmp_path: Path) -> None:
    """Both are trained on, one after the other: the first one's last goes by its own size."""
    two = "    rule.zero_grad()\n    brain(c).mean().backward()\n    rule.step()\n"
    inner = f"    for c, d in right:\n    {two.replace(chr(10) + '    ', chr(10) + ' ' * 8)}"
    fine = f"for a, b in left:\n{STEP_BODY}{inner}    print(brain(a).mean().item())\n"
    assert added(tmp_path, script("batch_size=6", "batch_size=4", fine))
    late = f"for c, d in right:\n{two}for a, b in left:\n{STEP_BODY}"
    late += "    print(brain(c).mean().item())\n"
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", late))
    assert lines[-2:] == ["dd.use_batch_of(right)", "print(dd.mean(brain(c).mean()).item())"]


SAMPLER = """\
class Endless(torch.utils.data.Sampler):
    def __init__(self, data):
        self.count = len(data)
    def __iter__(self):
        return iter(numbers(self.count))
def numbers(count):
    while True:
        yield from range(count)
"""


@pytest.mark.parametrize("end", ["", "        if count > 9: return\n"])
def test_samplers_that_never_end_give_full_batches(tmp_path: Path, end: str) -> None:
    loader = "batch_size=6, sampler=Endless(shared)"
    text = script(loader, loader, ASKED).replace("features,", SAMPLER + end + "features,", 1)
    assert ("dd.use_batch_of(left)" in added(tmp_path, text)) is bool(end)


def test_batches_of_either_loader_in_turn(tmp_path: Path) -> None:
    loop = (
        "one, other = iter(left), iter(right)\nfor i in range(4):\n"
        "    if i % 2:\n        a, b = next(one)\n    else:\n        a, b = next(other)\n"
        "    rule.zero_grad()\n    loss = F.cross_entropy(brain(a), b)\n"
        "    loss.backward()\n    rule.step()\n"
    )
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", loop))
    assert "right = dd.shard(DataLoader(shared, batch_size=4))" in lines
    assert "loss = dd.mean(F.cross_entropy(brain(a), b))" in lines


def test_loaders_of_one_function_are_told_apart(tmp_path: Path) -> None:
    text = script("batch_size=6", "batch_size=4", ZIPPED)
    text = text.replace("left = DataLoader(shared, batch_size=6)", "left = made(6)")
    text = text.replace("right = DataLoader(shared, batch_size=4)", "right = made(4)")
    maker = "def made(size):\n    return DataLoader(shared, batch_size=size)\n\n\n"
    lines = added(tmp_path, text.replace("left =", f"{maker}left =", 1))
    assert lines.index("dd.use_batch_of(left)") < lines.index("dd.use_batch_of(right)")


CUT = """\
    n = min(a.shape[0], len(c))
    a, b = a[0:n, :], b[:n]
    c, d = c[:n], d[:n]
"""


def test_batches_that_are_cut_to_the_smaller(tmp_path: Path) -> None:
    loop = ZIPPED.replace(BODY, CUT + BODY)
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", loop))
    assert lines[
        lines.index("n = min(dd.global_batch_size(a, of=left), dd.global_batch_size(c))") :
    ] == [
        "n = min(dd.global_batch_size(a, of=left), dd.global_batch_size(c))",
        "a, b = dd.first(a, n, of=left), dd.first(b, n, of=left)",
        "c, d = dd.first(c, n, of=right), d[:n]",
        "one = dd.mean(F.cross_entropy(brain(a), b))",
        "two = dd.mean(brain(c).pow(2).mean())",
    ]


def test_what_was_left_as_it_is_after_a_cut(tmp_path: Path) -> None:
    loop = ZIPPED.replace(BODY, CUT + BODY) + "    print(F.cross_entropy(brain(c), e))\n"
    loop = loop.replace("    n = min", "    e = d\n    n = min")
    with pytest.raises(Refusal):
        convert_text(tmp_path, script("batch_size=6", "batch_size=4", loop))


ENDLESS_ITERATOR = """\
class Endless:
    def __init__(self, loader):
        self.loader, self.rest = loader, iter(loader)

    def next(self):
        try:
            return next(self.rest)
        except StopIteration:
            self.rest = iter(self.loader)
            return next(self.rest)


def fit(batches):
    for i in range(3):
        a, b = batches.next()
        rule.zero_grad()
        penalty = F.cross_entropy(brain(a), b)
        penalty.backward()
        rule.step()


def look(batches):
    for i in range(3):
        a, b = batches.next()
        print(b.topk(2), F.cross_entropy(brain(a), b).item())


some, others = Endless(left), Endless(right)
for epoch in range(2):
    fit(some)
    look(others)
"""


def test_an_iterator_of_ones_own_has_its_own_batch_at_hand(tmp_path: Path) -> None:
    lines = added(tmp_path, script("batch_size=6", "batch_size=4", ENDLESS_ITERATOR))
    assert "left = dd.shard(DataLoader(shared, batch_size=6))" in lines
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


def test_a_name_that_is_given_already_is_no_decision(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("batch_size=6", "batch_size=4", ASKED.replace(BODY, JOINED)))
    project = Project(read_source(path), folder=tmp_path)
    plan = make_plan(project, Options())
    assert plan.choices.named
    # As where neither a name nor a switch settles whose batch it is: the line is out of turn still.
    plan.facts = interpret(project, replace(plan.choices, named={}))
    assert plan.facts.batches.late_uses
    while switch_batches(plan):
        plan.facts = interpret(project, replace(plan.choices, named={}, switches={}))
    assert plan.choices.named


MOVED = """\
def moved(xs):
    return [x.to("cpu") for x in xs]


other = DataLoader(TensorDataset(features), batch_size=6)
for (a, b), (c,) in zip(feed, other):
    a, c = moved([a, c])
    rule.zero_grad()
    made, judged = brain(a), brain(c)
    wanted = torch.ones(made.size())
    penalty = F.mse_loss(made, wanted) + F.mse_loss(judged, wanted)
    penalty.backward()
    rule.step()
"""


def test_items_of_a_list_that_a_comprehension_moves_stay_apart(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + MOVED)
    assert "penalty = dd.mean(F.mse_loss(made, wanted) + F.mse_loss(judged, wanted))" in lines


MADE_BY_ONE_LINE = [
    "loaders = {}\nfor n, size in (('a', 6), ('b', 4)):\n"
    "    loaders[n] = DataLoader(shared, batch_size=size)\n",
    "loaders = {n: DataLoader(shared, batch_size=s) for n, s in {'a': 6, 'b': 4}.items()}\n",
    "loaders = dict(a=6, b=4)\nloaders = {n: DataLoader(shared, s) for n, s in loaders.items()}\n",
]


@pytest.mark.parametrize("lines", MADE_BY_ONE_LINE)
def test_loaders_that_one_line_makes_may_differ(tmp_path: Path, lines: str) -> None:
    loop = ZIPPED.replace("zip(left, right)", "zip(loaders['a'], loaders['b'])")
    text = HEAD.replace("brain =", f"{SHARED}{lines}brain =", 1) + loop
    with pytest.raises(Refusal, match="has given the next one"):
        convert_text(tmp_path, text)


def test_loaders_of_a_dictionary_comprehension_are_told_apart(tmp_path: Path) -> None:
    made = "{n: DataLoader(shared, batch_size=s) for n, s in (('a', 6), ('b', 4))}"
    loop = ZIPPED.replace("zip(left, right)", "zip(loaders['a'], loaders['b'])")
    text = HEAD.replace("brain =", f"{SHARED}loaders = {made}\nbrain =", 1) + loop
    switches = [one for one in added(tmp_path, text) if "use_batch_of" in one]
    assert switches == ["dd.use_batch_of(a)", "dd.use_batch_of(c)"]
