"""Batches of two loaders at hand together: shared alike only if they are of one size."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
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
def test_batches_that_may_differ_in_size(tmp_path: Path, loop: str, right: str) -> None:
    with pytest.raises(Refusal, match="may have different numbers of samples") as caught:
        convert_text(tmp_path, script("batch_size=6", right, loop))
    assert "drop_last=True" in str(caught.value)


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
    with pytest.raises(Refusal, match="may have different numbers"):
        convert_text(tmp_path, script("batch_size=6", "batch_size=6, shuffle=True", ASKED))


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
    with pytest.raises(Refusal, match="one that is taken beside it"):
        convert_text(tmp_path, script("batch_size=6", "batch_size=4", head + loop))


def test_a_batch_that_is_used_after_another_one_came(tmp_path: Path) -> None:
    """Both are trained on, one after the other: the first is used too late."""
    two = "    rule.zero_grad()\n    brain(c).mean().backward()\n    rule.step()\n"
    inner = f"    for c, d in right:\n    {two.replace(chr(10) + '    ', chr(10) + ' ' * 8)}"
    fine = f"for a, b in left:\n{STEP_BODY}{inner}    print(brain(a).mean().item())\n"
    assert added(tmp_path, script("batch_size=6", "batch_size=4", fine))
    late = f"for c, d in right:\n{two}for a, b in left:\n{STEP_BODY}"
    late += "    print(brain(c).mean().item())\n"
    with pytest.raises(Refusal, match="which may have another number of samples"):
        convert_text(tmp_path, script("batch_size=6", "batch_size=4", late))


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
    if end:
        with pytest.raises(Refusal, match="may have different numbers of samples"):
            convert_text(tmp_path, text)
    else:
        assert f"right = dd.shard(DataLoader(shared, {loader}))" in added(tmp_path, text)


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
