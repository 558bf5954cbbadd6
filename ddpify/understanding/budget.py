"""How much work the understanding of one entry may take, counted in steps and never in seconds.

A step is the evaluation of one expression, so that the answer is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst  # which linting a file without PyTorch need not load

MOST_STEPS = 1_000_000  # for one entry, in all passes and rounds together


class Exhausted(Exception):
    """The steps of an entry are used up: what was learned until then is incomplete.

    ``path`` and 1-based ``line`` are those of the function where most of the steps went, and
    ``passes`` the number of complete passes whose facts are given all the same.
    """

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.budget = budget
        self.passes = 0
        self.path: Path | None = None
        self.line = 1

    @property
    def function(self) -> cst.CSTNode | None:
        """Where most of the steps went: a function's own code; None outside of all functions."""
        return self.budget.costliest

    def __str__(self) -> str:
        node = self.function
        named = getattr(node, "name", None)  # a lambda has none
        steps = min(self.budget.used, self.budget.most)
        name = f"{named.value}()" if named is not None else "a lambda"
        where = "the code outside of functions" if node is None else name
        return f"the analysis was cut short after {steps:,} steps, most of them in {where}"


class Budget:
    """The steps that an entry may take, how many it has taken, and where."""

    def __init__(self, most: int | None = None) -> None:
        self.most = MOST_STEPS if most is None else most
        self.used = 0
        # What deciding on a conversion ended with: it would do so again, at whatever asks for it.
        self.planning_ended: Exhausted | None = None
        self._spent: Counter[cst.CSTNode | None] = Counter()

    def note(self, function: cst.CSTNode | None, steps: int) -> None:
        """Note how many steps the code of a function took, without what it called."""
        self._spent[function] += steps

    @property
    def costliest(self) -> cst.CSTNode | None:
        """The function whose own code took most steps; None for the code outside of functions."""
        return self._spent.most_common(1)[0][0] if self._spent else None
