"""Where a training stands: the resumable loops under way, and the passes over loaders in them.

A position is one iteration of each resumable loop, from the outside in, and for each pass over a
loader the random states from which its order was drawn and the number of batches taken.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ddpify.runtime.rng import capture_streams, reinstate_streams
from ddpify.runtime.state import arrays_in


class Level:
    """A resumable loop under way (or the script itself, around all loops)."""

    def __init__(self, depth: int, ordinal: int, first: bool, objects: tuple[Any, ...]) -> None:
        self.depth = depth
        self.ordinal = ordinal  # among the loops of one iteration of the level around it
        self.first = first  # whether it and all levels around it are the first in theirs
        self.objects = objects
        # The tensors and arrays in them as the loop began: these are restored in place.
        self.entered = {
            path: found
            for index, one in enumerate(objects)
            for path, found in arrays_in(one, f"argument {index + 2}").items()
        }
        self.count = -1  # the iteration that runs
        self.item: int | None = None  # what that iteration is for, where it is a number
        self.values: tuple[Any, ...] = ()
        self.loops = 0  # resumable loops begun in this iteration
        self.passes = 0  # passes over loaders begun in this iteration

    def next_iteration(self, item: Any) -> None:
        """Another iteration begins, for ``item``."""
        self.count += 1
        self.item = item if type(item) is int else None
        self.loops = self.passes = 0
        self.values = ()


class Pass:
    """One pass over a loader."""

    def __init__(self, level: Level, length: int | None) -> None:
        self.level = level
        self.begun_in = level.count
        self.ordinal = level.passes
        self.length = length
        self.made: list[Any] | None = None
        self.drawn: list[Any] | None = None
        self.taken = 0
        self.mover: Level | None = None  # the resumable loop that took the latest batch
        self.saved: dict[str, Any] | None = None
        self.skip = 0  # batches that are still to be left out
        level.passes += 1

    def make(self, generators: Sequence[torch.Generator]) -> None:
        """The sampler's iterator is about to be made."""
        if self.saved is not None:
            reinstate_streams(self.saved["made"], generators)
        self.made = capture_streams(generators)

    def draw(self, batches: Iterator[Any], generators: Sequence[torch.Generator]) -> Any:
        """The sampler's first batch, or the first that is not to be left out."""
        if self.saved is None:
            self.drawn = capture_streams(generators)
            return next(batches)
        before = capture_streams()
        reinstate_streams(self.saved["drawn"], generators)
        self.drawn = capture_streams(generators)
        for _ in range(self.skip):
            next(batches)
        batch = next(batches)
        if self.skip:
            # Else the draws of the order belong to what follows.
            reinstate_streams(before)
        self.skip = 0
        return batch

    def leaves_out(self) -> bool:
        """Whether the batch that is asked for belongs to an iteration that is left out."""
        self.taken += 1
        self.mover = _position.advancing
        return _position.skipping and self.saved is not None

    def unread(self) -> int:
        """How many batches the loader is still to read for nothing: no sampler left them out."""
        unread, self.skip = self.skip, 0
        return unread

    def store(self) -> dict[str, Any] | None:
        """What is needed to take the pass up again; None where that cannot be."""
        level, mover = self.level, self.mover
        if self.begun_in != level.count or (level.depth >= 0 and level not in _position.levels):
            return None  # made in an earlier iteration, which a restart leaves out
        looped = mover is not None and mover in _position.levels
        if looped and mover is not None and self.taken != mover.count + 1:
            return None
        return {
            "depth": level.depth,
            "ordinal": self.ordinal,
            "length": self.length,
            "made": self.made,
            "drawn": self.drawn,
            "skip": self.taken - 1 if looped else self.taken,
        }


class Position:
    """The levels and passes of this process; ``target`` is the position to go back to, if any."""

    def __init__(self) -> None:
        self.active = False
        self.script = Level(-1, 0, True, ())
        self.levels: list[Level] = []
        self.passes: list[Pass] = []
        self.target: dict[str, Any] | None = None
        self.advancing: Level | None = None
        self.skipping = False
        self.opening: Pass | None = None

    @property
    def innermost(self) -> Level:
        """The loop whose body runs."""
        return self.levels[-1] if self.levels else self.script

    def _around(self, level: Level) -> Level:
        """The loop in whose iteration another one runs."""
        at = self.levels.index(level)
        return self.levels[at - 1] if at else self.script

    def enter(self, objects: tuple[Any, ...]) -> Level:
        """A resumable loop begins."""
        around = self.innermost
        first = around.first and around.loops == 0
        level = Level(around.depth + 1, around.loops, first, objects)
        around.loops += 1
        self.levels.append(level)
        return level

    def leave(self, level: Level) -> None:
        """A resumable loop ends, and with it what it left open inside."""
        if level in self.levels:
            del self.levels[self.levels.index(level) :]

    def saved_level(self, level: Level) -> dict[str, Any] | None:
        """What the target holds for a loop, if that is where it leads."""
        if self.target is None or not level.first or level.depth >= len(self.target["levels"]):
            return None
        found: dict[str, Any] = self.target["levels"][level.depth]
        return found

    def begin_pass(self, length: int | None) -> Pass | None:
        """A pass over a loader begins; None where nothing is to be resumed."""
        if not self.active:
            return None
        level = self.innermost
        if level is self.advancing:  # begun by a loop for its own items, not in an iteration of it
            level = self._around(level)
        begun = Pass(level, length)
        if self.target is not None and level.first:
            for saved in self.target["passes"]:
                if (saved["depth"], saved["ordinal"]) == (level.depth, begun.ordinal):
                    _check_length(saved["length"], length)
                    begun.saved, begun.skip = saved, saved["skip"]
        self.passes.append(begun)
        return begun

    def end_pass(self, one: Pass | None) -> None:
        """A pass is over."""
        if one in self.passes:
            self.passes.remove(one)


def _check_length(saved: int | None, length: int | None) -> None:
    if saved != length:
        raise RuntimeError(
            f"the snapshot is from a training with {saved} batches in an epoch, and now there are "
            f"{length}: start with the same data and batch size, or remove the snapshots to start "
            "anew"
        )


_position = Position()


def position() -> Position:
    """Where this process stands."""
    return _position
