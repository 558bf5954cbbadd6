"""``convert --resume``: which loops are taken up again, and with what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, added, convert_text

LOOPS = """\
for epoch in range(3):
    for a, b in feed:
        rule.zero_grad()
        penalty = F.cross_entropy(brain(a), b)
        penalty.backward()
        rule.step()
"""


def resumed(folder: Path, text: str, **options: Any) -> list[str]:
    """The lines that --resume adds."""
    lines = added(folder, text, resume=True, **options)
    return [line for line in lines if "resumable(" in line or "snapshot" in line]


def test_loops_get_the_model_and_the_optimizer(tmp_path: Path) -> None:
    assert resumed(tmp_path, HEAD + LOOPS) == [
        'dd.init(snapshots="snapshots")',
        "for epoch in dd.resumable(range(3), brain, rule):",
        "for a, b in dd.resumable(feed):",
        "dd.snapshot()",
    ]


def test_without_the_option_nothing_is_added(tmp_path: Path) -> None:
    assert not [line for line in added(tmp_path, HEAD + LOOPS) if "snapshot" in line]


def test_the_steps_between_snapshots(tmp_path: Path) -> None:
    lines = resumed(tmp_path, HEAD + LOOPS, snapshot_steps=50)
    assert lines[0] == 'dd.init(snapshots="snapshots", snapshot_steps=50)'


INSIDE = "        rule.step()\n"
HANDED_ON = {
    "a sum": ("total = 0.0\n", INSIDE + "        total += penalty.item()\n", ["total", "total"]),
    "a sum of each epoch": (
        "",
        INSIDE + "        seen.append(1)\n    print(len(seen))\n",
        ["seen"],
    ),
    "the last epoch's best": (
        "best = None\n",
        INSIDE + "    if best is None or epoch > best:\n        best = epoch\n",
        ["best"],
    ),
    "nothing, where each round sets it": ("", INSIDE + "        x = 1\n        print(x)\n", []),
    "nothing, for a clock": (
        "",
        INSIDE + "    print(time.time() - start)\n",
        [],
    ),
}


@pytest.mark.parametrize("case", HANDED_ON)
def test_what_rounds_hand_on_is_kept(case: str, tmp_path: Path) -> None:
    before, inside, names = HANDED_ON[case]
    loops = LOOPS.replace(INSIDE, inside)
    if "seen" in inside:
        loops = loops.replace("    for a, b", "    seen = []\n    for a, b")
    if "start" in inside:
        loops = loops.replace("    for a, b", "    start = time.time()\n    for a, b")
    lines = resumed(tmp_path, "import time\n" + HEAD + before + loops)
    kept = [line.split(" = ")[0] for line in lines if line.endswith(")") and " = dd.snap" in line]
    assert kept == names


def test_objects_that_the_loop_changes(tmp_path: Path) -> None:
    made = (
        "curve = []\nplan = torch.optim.lr_scheduler.StepLR(rule, 1)\n"
        "class Meter:\n    def __init__(self):\n        self.n = 0\n"
        "    def add(self):\n        self.n += 1\n"
        "meter = Meter()\n"
    )
    loops = LOOPS + "        meter.add()\n    plan.step()\n    curve.append(epoch)\n"
    lines = resumed(tmp_path, HEAD + made + loops)
    found = next(line for line in lines if line.startswith("for epoch"))
    inner = found.removesuffix("):").split("range(3), ")[1].split(", ")
    assert inner[:2] == ["brain", "rule"]
    assert sorted(inner[2:]) == ["curve", "meter", "plan"]


def test_a_file_that_a_restart_would_empty_is_named(tmp_path: Path) -> None:
    loops = LOOPS + "    log.write('x')\n"
    done = convert_text(tmp_path, HEAD + "log = open('log.txt', 'w')\n" + loops, resume=True)
    (note,) = [note for note in done.notes if "restart empties" in note.text]
    assert note.attention and note.line == HEAD.count("\n") + 1
    done = convert_text(tmp_path, HEAD + "log = open('log.txt', 'a')\n" + loops, resume=True)
    assert not [note for note in done.notes if "restart empties" in note.text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOOPS.replace("for epoch in range(3)", "while True"), "a while loop"),
        (
            "batches = iter(feed)\nfor step in range(3):\n    a, b = next(batches)\n"
            + "".join(f"    {line.strip()}\n" for line in LOOPS.splitlines()[2:]),
            "batches are not taken by a loop",
        ),
    ],
)
def test_loops_that_cannot_be_taken_up_are_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DdpifyError, match=words) as refusal:
        convert_text(tmp_path, HEAD + text, resume=True)
    assert refusal.value.line
