"""The planted bugs: what is changed, and what verify must say about it."""

from __future__ import annotations

from tests.verify.bugs.data import DATA_BUGS
from tests.verify.bugs.fools import FOOLS
from tests.verify.bugs.gradients import GRADIENT_BUGS
from tests.verify.bugs.hangs import HANGS
from tests.verify.bugs.outputs import OUTPUT_BUGS
from tests.verify.bugs.updates import UPDATE_BUGS

BUGS = [*DATA_BUGS, *UPDATE_BUGS, *GRADIENT_BUGS, *HANGS, *OUTPUT_BUGS, *FOOLS]

__all__ = ["BUGS", "FOOLS"]
