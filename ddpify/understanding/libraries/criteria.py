"""Whether modules only compute, as code that runs asks: with the layers that they hold by then.

That is asked while a module is still being built. What it comes to hold afterwards does not need
another pass of the interpreter, as long as all that was answered is still so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.understanding.libraries import object_kinds

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState
    from ddpify.understanding.values import Instance


def is_criterion(run: RunState, model: Instance) -> bool:
    """Whether a module of the project only computes, as far as this is known."""
    answer = object_kinds.is_criterion(model)
    run.criteria.add((model, answer))
    return answer


def outdated(run: RunState) -> bool:
    """Whether an answer of this pass would be another one now."""
    return any(object_kinds.is_criterion(model) is not answer for model, answer in run.criteria)
