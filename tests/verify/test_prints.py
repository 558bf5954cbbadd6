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


def test_durations_are_left_out_and_the_other_numbers_compared() -> None:
    own = "[==>..] Step: 982ms | Tot: 0ms | Loss: 2.341 | 1/3"
    other = "[==>..] Step: 1s12ms | Tot: 2m 3s | Loss: {} | 1/3"
    assert prints.compare(own, [other.format("2.341")]).same
    assert prints.compare(own, [other.format("2.541")]).wrong
    assert prints.compare("10 samples at 0:02:11", ["12 samples at 1:22:01"]).wrong


def test_points_in_time_are_left_out_and_the_other_numbers_compared() -> None:
    own = "2026-11-21 10:20:00,625:INFO: loss 2.341 after 0:00:12.345678"
    other = "2026-11-22 00:07:35,340:INFO: loss {} after 0:00:31.5"
    assert prints.compare(own, [other.format("2.341")]).same
    assert prints.compare(own, [other.format("2.541")]).wrong
    assert prints.compare("0:02:11,93,0.5", ["0:02:12,92,0.5"]).wrong
    assert prints.compare("shape 2026-11-9 ids 3:4", ["shape 2026-12-9 ids 3:4"]).wrong


def test_a_duration_may_follow_its_unit() -> None:
    own = "10/ 21 batches | ms/batch 51.75 | loss  5.87"
    assert prints.compare(own, ["10/ 21 batches | ms/batch  4.78 | loss  5.87"]).same
    assert prints.compare(own, ["10/ 21 batches | ms/batch 51.75 | loss  5.97"]).wrong


def test_numbers_that_a_second_run_has_otherwise_are_no_results() -> None:
    own = "[1/2] BT 10.346 loss 9.30\n[2/2] BT 8.210 loss 9.10\n"
    again = "[1/2] BT 10.121 loss 9.30\n[2/2] BT 8.001 loss 9.10\n"
    other = "[1/2] BT 18.380 loss 9.30\n[2/2] BT 21.733 loss {}\n"
    assert prints.compare(own, [other.format("9.10")]).wrong
    assert prints.compare(own, [other.format("9.10")], again).same
    assert prints.compare(own, [other.format("9.20")], again).wrong


def test_one_line_that_chance_changes_is_compared_in_the_others() -> None:
    own, again = "right 5.2\nright 5.3\nright 5.4", "right 5.2\nright 5.2\nright 5.4"
    assert prints.compare(own, ["right 5.2\nright 5.3\nright 6.4"], again).wrong
