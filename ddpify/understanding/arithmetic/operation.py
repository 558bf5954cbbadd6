"""An operation on one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.values import Data, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


@dataclass(slots=True)
class Operation:
    """A call of a tensor function, as one of its tensors sees it.

    ``data`` is the tensor and ``operand`` its expression; ``rest`` and ``kwargs`` are the arguments
    beside the tensors. A rule may come to know more of the tensor, and put that in its place.
    """

    run: RunState
    node: cst.BaseExpression
    name: str
    operand: cst.BaseExpression
    data: Data
    rest: Sequence[Value]
    kwargs: Mapping[str, Value]

    @property
    def of_all_elements(self) -> bool:
        """Whether no argument says along which dimension it goes."""
        return not self.rest and not self.kwargs
