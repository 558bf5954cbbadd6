"""``torch.utils.checkpoint``: a function whose activations are computed again in backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.libraries import opaque
from ddpify.understanding.values import Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_OPTIONS = frozenset(
    "use_reentrant preserve_rng_state context_fn determinism_check debug early_stop".split()
)


def called(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``checkpoint(block, x)`` calls ``block(x)``, now and in backward."""
    if not args or not args[0].atoms:
        return opaque.opaque(run, node, None, args, kwargs)
    given = {name: held for name, held in kwargs.items() if name not in _OPTIONS}
    run.recomputing += 1
    try:
        return run.call(node, args[0], args[1:], given)
    finally:
        run.recomputing -= 1
