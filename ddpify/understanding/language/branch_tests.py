"""Whether a test holds: surely, or as long as the defaults of parameters are what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import narrowing
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def truth(run: RunState, test: cst.BaseExpression, result: Value) -> bool | None:
    """Whether a test surely holds: literals, what the call passes, what follows from both.

    A name is a setting that the user may change, unless the call in progress gives its value;
    so is what an object of a library holds, such as the options of the command line where the
    script's arguments are not told.
    """
    constant = result.constant()
    if constant is ...:
        return None
    return None if _is_setting(run, test) else bool(constant)


def _is_setting(run: RunState, test: cst.BaseExpression) -> bool:
    if isinstance(test, cst.Name):
        return test.value not in run.frame.scope.passed
    owners = run.seen(test.value) if isinstance(test, cst.Attribute) else None
    return owners is not None and any(
        isinstance(a, Instance)
        and isinstance(a.type, str)
        and not (run.project.arguments and a.type == "argparse.Namespace")
        for a in owners.atoms
    )


def by_defaults(run: RunState, test: cst.BaseExpression) -> bool | None:
    """Whether a test holds where the call in progress leaves what it asks about to its default.

    The other branch is followed as well, since the user may change the default. What the function
    gives does not come from there, as long as it gives something by the default.
    """
    scope = run.frame.scope
    if not scope.left_out or not any(
        isinstance(part, cst.Name) and part.value in scope.left_out for part in walk(test)
    ):
        return None
    scope.passed.update(scope.left_out)
    try:
        known = truth(run, test, run.eval(test))
    finally:
        scope.passed.difference_update(scope.left_out)
    if known is not None:
        return known
    asked = narrowing.asked_for_none(test)
    if asked is None or asked[0] not in scope.left_out or scope.names[asked[0]].constant() is ...:
        return None
    return (scope.names[asked[0]].constant() is None) is asked[1]
