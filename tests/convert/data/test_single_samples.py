"""Loaders whose batches are of one sample: the training is the same, but no faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, convert_text

NOTE = "each of its batches is one sample"


@pytest.mark.parametrize(
    ("arguments", "noted"),
    [
        ("batch_size=1, shuffle=True", True),
        ("1", True),
        ("shuffle=True", True),
        ("batch_size=settings['alone']", True),
        ("batch_size=settings['several']", False),
        ("batch_size=6, shuffle=True", False),
        ("6", False),
        ("batch_size=size", False),
        ("**{'batch_size': 6}", False),
        ("batch_size=1, **{'shuffle': True}", True),
        ("batch_size=1, **dict([('batch_sampler', groups)])", False),
        ("batch_sampler=groups", False),
    ],
)
def test_a_loader_of_single_samples_is_noted(tmp_path: Path, arguments: str, noted: bool) -> None:
    head = HEAD.replace("batch_size=6, shuffle=True", arguments)
    text = head.replace(
        "feed =",
        "settings = {'alone': 1, 'several': 6}\n"
        "size = 1 if sum(labels) < 0 else int(input())\ngroups = [[0, 1, 2], [3, 4, 5]]\nfeed =",
    )
    notes = [note for note in convert_text(tmp_path, text + STEP).notes if note.attention]
    assert any(NOTE in str(note) for note in notes) is noted


def test_a_loader_that_is_only_evaluated_on_is_not(tmp_path: Path) -> None:
    check = "for a, b in check:\n    print(F.cross_entropy(brain(a), b).item())\n"
    text = HEAD.replace("labels), batch_size=6)", "labels))") + STEP + check
    assert not any(NOTE in str(note) for note in convert_text(tmp_path, text).notes)
