"""Loops over batches: what is older than the current batch, and whether all ranks hold it."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.frames import Frame, Loop
from ddpify.understanding.liveness import taken_over
from ddpify.understanding.run_state.state import State
from ddpify.understanding.values import UNKNOWN, Instance, Value, join


class Rounds(State):
    """Answers what a loop's round has set, and which batch is current."""

    def bind(self, name: str, new: Value) -> None:
        """Assign to a name here."""
        scope = self.frame.scope
        if name in scope.shared:
            outer = scope.parent
            while outer is not None and outer.parent is not None and name not in outer.names:
                outer = outer.parent
            if outer is not None:
                outer.names[name] = join(outer.names.get(name, UNKNOWN), new)
                self.note_set_around(name, new)
            return
        scope.rebind(name, new)
        for loop in self.frame.loops:
            loop.assigned.add(name)

    def outlives_batch(self, target: cst.BaseExpression) -> bool:
        """Whether a target holds its value from one batch to the next."""
        if not isinstance(target, cst.Name) or target.value in self.frame.scope.shared:
            return True
        loops = [loop for loop in self.frame.loops if loop.takes_batches]
        return bool(loops) and not self.is_made_in_round(target.value, loops[-1])

    @staticmethod
    def is_made_in_round(name: str, loop: Loop) -> bool:
        """Whether what a name holds here is surely of the round in progress.

        What ``if table is None: table = ...`` makes is of the first round.
        """
        return name in loop.assigned and name not in taken_over(loop.node)

    def is_older(self, made: Instance) -> bool:
        """Whether an object was there before the current batch."""
        if self.tried is not None:
            return not self.tried.module.holds(self.tried.node, made.site)
        if self._is_of_this_call(made):
            return False
        loops = {loop.node for frame in self.frames for loop in frame.loops if loop.takes_batches}
        return not loops <= self.made_in.get(made, frozenset())

    def _is_of_this_call(self, made: Instance) -> bool:
        """Whether a function in progress made an object after the current batch had come."""
        for frame in reversed(self.frames):
            if _is_made_by(frame, made):
                own = (loop for loop in frame.loops if not frame.module.holds(loop.node, made.site))
                return not any(loop.takes_batches for loop in own)
            if any(loop.takes_batches for loop in frame.loops):
                return False
        return False

    def in_batch_loop(self) -> bool:
        """Whether the current batch is split among the ranks."""
        loops = [loop for frame in self.frames for loop in frame.loops]
        batch = not self.collating and any(loop.takes_batches for loop in loops)
        return batch and not self.in_replicated_loop()

    def takes_batch(self, source: str = "") -> None:
        """Note that the innermost loop takes a batch in each round.

        So do the loops around it, up to the one that makes the iterator of the name ``source``.
        """
        for loop in reversed(self.frame.loops):
            loop.taken = True
            if not source or source in loop.assigned:
                break

    def meets_split_batches(self) -> bool:
        """Whether the current batch, if there is one, may be split among the ranks."""
        replicated = bool(self.current_loaders) and self.current_loaders <= self.current_replicated
        return self.running_entry and not self.in_replicated_loop() and not replicated

    def in_replicated_loop(self) -> bool:
        """Whether the current batch is replicated."""
        looped = any(loop.takes_replicated for frame in self.frames for loop in frame.loops)
        return bool(self.taking_replicated) or looped


def _is_made_by(frame: Frame, made: Instance) -> bool:
    """Whether the function of a frame makes an object; those of its defaults were there before."""
    runs, module = frame.runs, frame.module
    if runs is None or module is not made.module or not module.holds(runs, made.site):
        return False
    parameters = getattr(runs, "params", None)
    return parameters is None or not module.holds(parameters, made.site)
