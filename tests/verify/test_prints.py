"""Comparison of printed lines, without running anything."""

from __future__ import annotations

from ddpify.verify.compare import prints


def test_last_digit_times_and_padding_may_differ() -> None:
    own = "epoch 1 loss 0.1234 acc  93/100\nepoch took 3.2 s\n"
    other = "epoch 1 loss 0.1235 acc 93/100\nepoch took 9.9 s\n"
    assert prints.compare(own, [other]).same


def test_counts_are_exact() -> None:
    found = prints.compare("right 93/100", ["right 92/100"])
    assert found.wrong == [("right 93/100", "right 92/100")]


def test_missing_extra_and_repeated_lines() -> None:
    found = prints.compare("a 1\nb 2", ["a 1\nwarming up", "a 1"])
    assert found.missing == ["b 2"]
    assert found.extra == ["warming up"]
    assert found.repeated == [("a 1", 2)]


def test_a_progress_bar_is_read_as_the_lines_it_shows() -> None:
    assert prints.split_lines("10%\r20%\r\x1b[1mdone\x1b[0m\n\n") == ["10%", "20%", "done"]


def test_numbers_that_chance_changes_may_differ_as_much() -> None:
    assert prints.compare("x 1.000", ["x 1.500"]).wrong
    assert prints.compare("x 1.000", ["x 1.500"], "x 1.100").same
