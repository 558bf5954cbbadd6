"""What counts as written after branches: the same as where each side has a copy of its own."""

from __future__ import annotations

from random import Random

import pytest

from ddpify.understanding.run_state.written import Branching, Place, Written

OWNER = object()
DEPTH = 4


def some(draw: Random) -> set[Place]:
    return {(OWNER, draw.choice("abcdefgh")) for _ in range(draw.randrange(3))}


def with_copies(draw: Random, held: set[Place], depth: int) -> tuple[set[Place], bool]:
    """What a block leaves, and whether its end is reached; each side gets a copy."""
    for _ in range(draw.randrange(4)):
        kind = draw.choice(("write", "batch", "branch", "return"))
        if kind == "write":
            held = held | some(draw)
        elif kind == "batch":
            held = some(draw)
        elif kind == "branch" and depth:
            sides = [with_copies(draw, held, depth - 1) for _ in range(2)]
            reached = [one for one, ends in sides if ends]
            if not reached:
                return sides[-1][0], False
            held = set[Place]().union(*reached)
        elif kind == "return":
            return held, False
    return held, True


def with_changes(draw: Random, written: Written, depth: int) -> bool:
    """The same block on one object; whether its end is reached."""
    for _ in range(draw.randrange(4)):
        kind = draw.choice(("write", "batch", "branch", "return"))
        if kind == "write":
            written.add(some(draw))
        elif kind == "batch":
            written.clear()
            written.add(some(draw))
        elif kind == "branch" and depth:
            branching, ends = Branching([written]), []
            for side in range(2):
                ends.append(with_changes(draw, written, depth - 1))
                if ends[-1]:
                    branching.reached()
                if side == 0:
                    branching.next_side()
            branching.join()
            if not any(ends):
                return False
        elif kind == "return":
            return False
    return True


@pytest.mark.parametrize("seed", range(300))
def test_sides_are_kept_apart(seed: int) -> None:
    start = some(Random(seed))
    expected, _ = with_copies(Random(seed), set(start), DEPTH)
    written = Written(set(start))
    with_changes(Random(seed), written, DEPTH)
    assert written.places == expected
