"""What objects hold that was written since the last batch came, on the sides of branches, too.

One side of a branch has not what the other has written; after both, what either has written counts,
if that side's end is reached. To copy all of it for each side takes longer than most sides do, so
changes are noted while a branch is in progress, and undone before its other side.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from ddpify.records import record

Place = tuple[object, str]


@record
class _Change:
    """Places that were added; or all that there were before, where those were ``cleared``."""

    places: Set[Place]
    cleared: bool = False


@dataclass(eq=False, repr=False, slots=True)
class Written:
    """Places that were written since the last batch came."""

    places: set[Place] = field(default_factory=set)
    _changes: list[_Change] = field(default_factory=list)
    _branches: int = 0  # in progress

    def add(self, places: Set[Place]) -> None:
        """These were written."""
        new = places - self.places
        if new:
            self.places |= new
            self._note(_Change(new))

    def clear(self) -> None:
        """A batch has come."""
        before, self.places = self.places, set()
        self._note(_Change(before, cleared=True))

    def _note(self, change: _Change) -> None:
        if self._branches:
            self._changes.append(change)

    def begin(self) -> int:
        """The number of changes that come before those of a branch."""
        self._branches += 1
        return len(self._changes)

    def end(self) -> None:
        """A branch has come to its end."""
        self._branches -= 1
        if not self._branches:
            self._changes.clear()

    def since(self, begun: int) -> _Change:
        """What a side has added to what was there; all that it leaves where a batch has come."""
        changes = self._changes[begun:]
        if any(one.cleared for one in changes):
            return _Change(set(self.places), cleared=True)
        return _Change(set[Place]().union(*(one.places for one in changes)))

    def undo(self, begun: int) -> None:
        """Let all be as it was before a branch."""
        while len(self._changes) > begun:
            change = self._changes.pop()
            if change.cleared:
                self.places = set(change.places)
            else:
                self.places -= change.places


class Branching:
    """A branch in progress, and what its sides leave."""

    def __init__(self, all_written: Sequence[Written]) -> None:
        self._begun = [(written, written.begin()) for written in all_written]
        self._left: list[list[_Change]] = []

    def reached(self) -> None:
        """A side has come to its end."""
        self._left.append([written.since(begun) for written, begun in self._begun])

    def next_side(self) -> None:
        """The other side starts from what was there."""
        for written, begun in self._begun:
            written.undo(begun)

    def join(self) -> None:
        """After both sides."""
        for number, (written, begun) in enumerate(self._begun):
            if self._left:
                written.undo(begun)
                _take_any(written, [side[number] for side in self._left])
            written.end()


def _take_any(written: Written, sides: Sequence[_Change]) -> None:
    """Let that be written which any of these sides leaves."""
    if all(side.cleared for side in sides):
        written.clear()
    written.add(set[Place]().union(*(side.places for side in sides)))
