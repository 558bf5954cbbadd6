"""Control dependence: names that are set under a condition on a rank's own data.

``bad += 1`` under ``if accuracy <= best:`` counts what this rank has seen, though no number of its
own goes into it. A flag or a result that is set so is another one on each rank.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import libcst as cst

from ddpify.lint.scripts.picked import asks_for_any
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.whole_data import is_own
from ddpify.understanding.labels.moves import Move
from ddpify.understanding.labels.origins import CLEAN
from ddpify.understanding.labels.slots import Slot


def is_decided_by_own(script: Script, test: cst.BaseExpression) -> bool:
    """Whether a condition reads what a condition on a rank's own data has set."""
    return _decided_of(script).holds(test)


@lru_cache(maxsize=4)  # it is asked about many conditions
def _decided_of(script: Script) -> _Decided:
    return _Decided(script)


class _Decided:
    """The names, attributes and results that conditions on a rank's own data set."""

    def __init__(self, script: Script) -> None:
        self.script, self.flow = script, script.flow
        self._own: dict[cst.BaseExpression, bool] = {}

    def holds(self, test: cst.BaseExpression) -> bool:
        module = self.script.owners.get(test, self.script.module)
        return bool(self.flow.slots(test, module) & self._slots)

    @cached_property
    def _slots(self) -> set[Slot]:
        found: set[Slot] = set()
        moves = [move for move in self.flow.moves if move.node in self.script.owners]
        while True:
            fresh = {
                slot
                for move in moves
                if not (self._is_agreed_on(move) or found.issuperset(move.targets))
                and any(self._asks_own(test, found) for test in self._tests(move))
                for slot in move.targets
            }
            if fresh <= found:
                return found
            found = self.flow.derived(found | fresh, without=self._is_agreed_on)

    def _tests(self, move: Move) -> list[cst.BaseExpression]:
        """The conditions that decide whether a value is set; of a result, which one it is.

        What comes behind a ``continue`` is set in other rounds, as a rule.
        """
        if move.passes or move.offers:
            return []
        returns = isinstance(move.node, cst.Return)
        guards = self.script.control.guards(move.node)
        return [one.test for one in guards if returns or not one.left_early]

    def _asks_own(self, test: cst.BaseExpression, found: set[Slot]) -> bool:
        module = self.script.owners.get(test, self.script.module)
        if self.flow.slots(test, module) & found:
            return True
        if test not in self._own:
            own = is_own(self.script, test) and not asks_for_any(self.script, test)
            self._own[test] = own and not self.script.control.asks_rank(test)
        return self._own[test]

    def _is_agreed_on(self, move: Move) -> bool:
        """Whether a collective makes what is set the same on all ranks."""
        return self.flow.cleaned.issuperset(move.targets) or any(
            one.label == CLEAN for one in move.source
        )
