"""What ranks may disagree on, and no edit settles, gets a note with its place and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, convert_text


def codes_and_lines(folder: Path, text: str) -> list[tuple[str, str]]:
    conversion = convert_text(folder, HEAD + text + STEP)
    lines = conversion.source.text.splitlines()
    return [(n.code, lines[n.line - 1].strip()) for n in conversion.notes if n.attention]


@pytest.mark.parametrize(
    "line",
    [
        "index = {word: i for i, word in enumerate(set('to be or not'.split()))}",
        "order = list({'b', 'a'}).index('a')",
        "files = dict(enumerate(os.listdir('.')))",
    ],
)
def test_an_order_that_is_not_fixed(line: str, tmp_path: Path) -> None:
    assert codes_and_lines(tmp_path, f"import os\n{line}\n") == [("DDP116", line)]


REUSED = "words = 'to be or not'.split()\nwords = {}\n"
INDEX = "index = {word: i for i, word in enumerate(words)}"


def test_an_order_under_a_name_that_was_used_before(tmp_path: Path) -> None:
    unordered = REUSED.format("list(set(words))") + f"{INDEX}\nwords = sorted(words)\n"
    assert codes_and_lines(tmp_path, unordered) == [("DDP116", INDEX)]
    assert codes_and_lines(tmp_path, REUSED.format("sorted(set(words))") + INDEX + "\n") == []
    perhaps = "words = 'to be or not'.split()\nif len(words) > 9:\n    words = list(set(words))\n"
    assert codes_and_lines(tmp_path, perhaps + INDEX + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "index = {word: i for i, word in enumerate(sorted(set('to be or not'.split())))}",
        "known = 'to' in set('to be or not'.split())",
        "index = {n: i for i, n in enumerate({3, 1, 2})}",
    ],
)
def test_a_fixed_order_needs_none(line: str, tmp_path: Path) -> None:
    assert codes_and_lines(tmp_path, line + "\n") == []


def test_generators_from_entropy(tmp_path: Path) -> None:
    text = """\
import time
import numpy as np
rng = np.random.default_rng()
fixed = np.random.default_rng(0)
torch.manual_seed(int(time.time()))
torch.manual_seed(3)


class Noisy:
    def __getitem__(self, index):
        return np.random.default_rng().random()


"""
    assert codes_and_lines(tmp_path, text) == [
        ("DDP108", "rng = np.random.default_rng()"),
    ]
