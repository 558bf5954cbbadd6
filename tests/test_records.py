"""Records: equality and hashes by their fields."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import pytest

from ddpify.records import record, replace


@record
class Place:
    """A place in a file, with a note that does not count."""

    path: str
    line: int = 1
    note: str = field(default="", compare=False)


@record
class Other:
    """The same fields, of another kind."""

    path: str
    line: int = 1


@record
class Hashed:
    """A hash that leaves out one of the fields that count."""

    path: str
    line: int = 1
    seen: bool = field(default=False, hash=False)


def test_a_field_that_is_left_out_of_the_hash_counts_where_they_are_equal() -> None:
    first, other = Hashed("a"), Hashed("a", seen=True)
    assert hash(first) == hash(other) != hash(Hashed("a", 2))
    assert first != other
    assert len({first, other, Hashed("a")}) == 2


def test_records_are_equal_where_all_that_counts_is() -> None:
    assert Place("a", 2, "seen") == Place("a", 2) != Place("a", 3)
    other: object = Other("a")
    assert Place("a") != other
    assert len({Place("a"), Place("a", note="twice"), Place("b"), other}) == 3


def test_records_are_shown_and_changed_as_dataclasses_are() -> None:
    assert repr(replace(Place("a"), line=4)) == "Place(path='a', line=4)"
    assert replace(Place("a", 2, "seen"), line=4).note == "seen"
    unknown: Any = {"lane": 4}
    with pytest.raises(TypeError, match="lane"):
        replace(Place("a"), **unknown)
