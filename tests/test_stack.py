"""Functions with room on the stack do what they did."""

from __future__ import annotations

import pytest

from ddpify.stack import roomy


@roomy
def depth(levels: int, *, more: int = 1) -> int:
    """How deep it went."""

    def down(left: int) -> int:
        return more + (down(left - 1) if left else 0)

    return down(levels)


def test_arguments_and_closures_are_as_before() -> None:
    assert depth(100) == 101
    assert depth(100, more=2) == 202
    assert depth.__doc__ == "How deep it went."


def test_endless_recursion_still_ends() -> None:
    with pytest.raises(RecursionError):
        depth(1_000_000)


def test_the_frame_is_larger_than_a_piece_of_the_stack() -> None:
    assert depth.__code__.co_stacksize * 8 > 16 * 1024
