"""A training of which every rank would do all of the work is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, convert_text

TAKEN_APART = """\
def taken_apart(batch):
    for i, sample in enumerate(batch):
        one = sample.data[0].repeat(4).unsqueeze(0)
        ones = one if i == 0 else torch.cat((ones, one), 0)
    return ones
"""
LOOP = """\
for a, b in feed:
    rule.zero_grad()
    penalty = F.cross_entropy(brain(taken_apart(a)), torch.zeros(len(a)).long())
    penalty.backward()
    rule.step()
"""


def test_no_rank_has_a_part(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        convert_text(tmp_path, HEAD + TAKEN_APART + LOOP)
    assert "on every rank, which would do all of the work" in str(refused.value)
    assert ":18:" in str(refused.value)


def test_it_is_marked_where_that_is_wanted(tmp_path: Path) -> None:
    made = convert_text(tmp_path, HEAD + TAKEN_APART + LOOP, force=True)
    assert b"# ddpify: not converted: the model trains on the same samples" in made.data


@pytest.mark.parametrize(
    "beside",
    [
        STEP,  # another training is shared
        LOOP.replace("taken_apart(a)", "a").replace("torch.zeros(len(a)).long()", "b"),
        "for i in range(3):\n    brain(features[:1]).sum().item()\n" + STEP,
        "for a, b in feed:\n    with torch.no_grad():\n        brain(taken_apart(a))\n" + STEP,
    ],
)
def test_work_beside_one_that_is_shared_may_be_whole(tmp_path: Path, beside: str) -> None:
    assert b"dd.wrap(" in convert_text(tmp_path, HEAD + TAKEN_APART + beside).data
