"""Loaders that are split, and that code which is not seen goes through as well."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, changed_lines, convert_text

HEAD = "import other\nfrom elsewhere import judge\n" + HEAD


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("judge(brain, feed)", "judge(brain, dd.replicate(feed))"),
        ("other.judge(brain, data=feed)", "other.judge(brain, data=dd.replicate(feed))"),
        ("other.Finder(brain).go(feed)", "other.Finder(brain).go(dd.replicate(feed))"),
    ],
)
def test_unseen_code_gets_whole_batches(tmp_path: Path, given: str, expected: str) -> None:
    conversion = convert_text(tmp_path, HEAD + STEP + f"print({given})\n")
    assert f"print({expected})" in changed_lines(conversion)[1]
    assert not any(note.attention for note in conversion.notes)


def test_a_loader_in_a_collection_is_noted(tmp_path: Path) -> None:
    conversion = convert_text(tmp_path, HEAD + STEP + "judge({'train': feed})\n")
    noted = [(note.line, note.text) for note in conversion.notes if note.attention]
    text = "code that is not seen gets a loader that gives each rank its part of every batch"
    assert noted == [(18, f"{text}: give it one of its own")]


def test_python_itself_and_what_is_not_split_get_what_they_got(tmp_path: Path) -> None:
    lines = changed_lines(convert_text(tmp_path, HEAD + STEP + "print(feed)\njudge(check)\n"))[1]
    assert not any("replicate" in line for line in lines)
