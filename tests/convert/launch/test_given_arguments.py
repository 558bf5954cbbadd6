"""What the arguments that a script is started with decide about its conversion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, added, convert_text

OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-m", "--mode", default="mean")
parser.add_argument("--level", type=int, default=1)
parser.add_argument("--plain", action="store_true")
{0}opt = parser.parse_args()
"""
BRANCHES = """\
for a, b in feed:
    rule.zero_grad()
    out = brain(a)
    if {0}:
        penalty = F.cross_entropy(out, b)
    else:
        penalty = F.cross_entropy(out, b, reduction="sum")
    penalty.backward()
    rule.step()
"""
MEAN, SUM = "penalty = dd.mean(penalty)", "penalty = dd.sum(penalty)"
ASKED = 'opt.mode == "mean"'


@pytest.mark.parametrize(
    ("arguments", "test", "more", "known"),
    [
        ("", ASKED, "", False),
        ("--mode mean", ASKED, "", True),
        ("--mode=mean", ASKED, "", True),
        ("-m mean", ASKED, "", True),
        ("--level 2", ASKED, "", True),  # the default of another
        ("--level 2", "opt.level == 2", "", True),
        ("--mode mean", "opt.level == 1", "", False),  # a number that is only a default
        ("--level 2", "not opt.plain", "", True),
        ("--plain", "opt.plain", "", True),
        ("--mo mean", ASKED, "", False),  # shortened
        ("--mode sum --mode mean", ASKED, "", False),
        ("--level 2", ASKED, 'parser.set_defaults(mode="sum")\n', False),
        ("--mode mean", ASKED + " and seen", "seen = parser.parse_args(['-m', 'x'])\n", False),
    ],
)
def test_options_are_what_the_arguments_say(
    tmp_path: Path, arguments: str, test: str, more: str, known: bool
) -> None:
    text = HEAD + OPTIONS.format(more) + BRANCHES.format(test)
    lines = added(tmp_path, text, arguments=tuple(arguments.split()))
    assert any("dd.mean(" in line for line in lines)
    assert any("dd.sum(" in line for line in lines) is not known


@pytest.mark.parametrize(
    "change",
    ["for k, v in b: setattr(opt, k, v)", "vars(opt).update(b)", "opt.mode = str(b)"],
)
def test_options_that_are_changed_later_may_be_anything(tmp_path: Path, change: str) -> None:
    text = HEAD + "import json\nb = json.load(open('c'))\n" + OPTIONS.format("") + change + "\n"
    lines = added(tmp_path, text + BRANCHES.format(ASKED), arguments=("--mode", "mean"))
    assert any("dd.sum(" in line for line in lines)


def test_the_summary_names_the_arguments(tmp_path: Path) -> None:
    text = HEAD + OPTIONS.format("") + BRANCHES.format(ASKED)
    notes = convert_text(tmp_path, text, arguments=("--mode", "mean")).notes
    assert [note.line for note in notes if "--mode mean" in note.text and note.attention] == [16]
