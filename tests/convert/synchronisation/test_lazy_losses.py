"""Losses that are read now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, added, convert_text
from tests.training_runs import TrainingRuns, assert_same_training

LOOP = """\
for i, (a, b) in enumerate(feed):
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    BACKWARD
    rule.step()
    READ
AFTER
"""
LAZY = "penalty = dd.mean(F.cross_entropy(brain(a), b), lazy=True)"
EAGER = "penalty = dd.mean(F.cross_entropy(brain(a), b))"


def written(folder: Path, text: str) -> list[str]:
    """The lines that converting a script adds, with those for lazy losses."""
    return added(folder, text, lazy=True)


def script(read: str, after: str = "", backward: str = "penalty.backward()") -> str:
    """A training that reads its loss in each round, and after the loop."""
    text = LOOP.replace("READ", read).replace("AFTER", after).replace("BACKWARD", backward)
    return HEAD + text


@pytest.mark.parametrize(
    "read",
    [
        "pass",
        "if i % 20 == 0: print(penalty.item())",
        "if i % 20 == 0 and penalty.item() < 2: print(i)",
        "if (i + 1) % len(feed) == 0 or i % 3 == 1: print('%.3f' % float(penalty))",
        "if i % 20 == 0: print(f'{i}: {penalty:.3f}')",
        "if i % 20 == 0:\n        now = penalty.detach()\n        print(now)",
        "print(i, penalty.item() if i % 20 == 0 else '')",
    ],
)
def test_the_value_waits_for_its_reader(tmp_path: Path, read: str) -> None:
    assert LAZY in written(tmp_path, script(read, "print(penalty.item())"))


@pytest.mark.parametrize(
    "read",
    [
        "print(penalty.item())",
        "if i % 20 == 0: kept = penalty",
        "if i % 20 == 0: print(penalty)",
        "if time.time() % 20 < 1: print(penalty.item())",
        "now = time.time()\n    if now % 20 < 1: print(penalty.item())",
        "if i % 20 == 0: losses.append(penalty)",
        "show = lambda: penalty.item()",
    ],
)
def test_a_reader_in_every_round_or_not_of_all_ranks(tmp_path: Path, read: str) -> None:
    lines = written(tmp_path, "import time\nlosses = []\n" + script(read))
    assert LAZY not in lines
    assert EAGER in lines or not any("lazy" in line for line in lines)


@pytest.mark.parametrize(
    ("bar", "loop"),
    [
        ("from tqdm.auto import tqdm as bar", "for i, (a, b) in bar(enumerate(feed)):"),
        ("from rich.progress import track", "for i, (a, b) in track(sequence=enumerate(feed)):"),
        ("from tqdm import trange", "for i in trange(3):\n  for a, b in feed:"),
    ],
)
def test_a_bar_around_a_count_counts(tmp_path: Path, bar: str, loop: str) -> None:
    text = script("if i % 20 == 0: print(penalty.item())")
    text = text.replace("for i, (a, b) in enumerate(feed):", loop)
    assert LAZY in written(tmp_path, f"{bar}\n{text}")


def test_a_function_of_ones_own_is_no_bar(tmp_path: Path) -> None:
    text = script("if i % 20 < 1: print(penalty.item())")
    text = text.replace("enumerate(feed):", "my_tqdm(enumerate(feed)):")
    own = "import time\ndef my_tqdm(rounds):\n    for _, one in rounds:\n        "
    lines = written(tmp_path, f"{own}yield time.time(), one\n{text}")
    assert LAZY not in lines
    assert EAGER in lines


def test_a_loss_without_a_name(tmp_path: Path) -> None:
    text = script("pass", backward="F.cross_entropy(brain(a), b).backward()")
    text = text.replace("    penalty = F.cross_entropy(brain(a), b)\n", "")
    assert "dd.mean(F.cross_entropy(brain(a), b), lazy=True).backward()" in written(tmp_path, text)


def test_a_loss_that_a_scaler_multiplies(tmp_path: Path) -> None:
    text = script("pass", backward="scaler.scale(penalty).backward()")
    assert EAGER in written(tmp_path, "import torch\nscaler = torch.amp.GradScaler()\n" + text)


def test_the_name_of_another_loss(tmp_path: Path) -> None:
    check = "for a, b in check:\n    penalty = F.cross_entropy(brain(a), b)\n    print(penalty)"
    assert LAZY in written(tmp_path, script("if i % 9 == 0: print(penalty.item())", check))


def test_training_is_the_same(tmp_path: Path, runs: TrainingRuns) -> None:
    text = script("if i % 2 == 0: print(penalty.item())", "print(float(penalty))")
    text = "import torch\ntorch.manual_seed(1)\ntorch.set_default_dtype(torch.float64)\n" + text
    text = text.replace("batch_size=6", "batch_size=9")  # the last batch has 2 samples
    conversion = convert_text(tmp_path, text)
    assert b"lazy=True" in conversion.data
    converted = tmp_path / "converted.py"
    converted.write_bytes(conversion.data)
    original = runs.run(tmp_path / "script.py")
    for size in (2, 3):
        assert_same_training(original, runs.run(converted, size))
