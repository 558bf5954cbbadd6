"""Functions of the project that are put under a library's names: ``F.relu = function``.

Whatever calls the name from then on calls the function. Within it, the name is the library's own,
as one that was kept before is: ``old = F.relu``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords, local_data
from ddpify.understanding.libraries.object_kinds import canonical
from ddpify.understanding.values import Bound, Function, Instance, QualifiedName, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def put(run: RunState, owner: QualifiedName, name: str, new: Value) -> None:
    """``owner.name = new``."""
    if any(new.of(Function, Bound)):
        run.replaced[canonical(f"{owner.name}.{name}")] = new


def call(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    args: list[Value],
    kwargs: Keywords,
) -> Value | None:
    """What a function makes of a rank's rows that stands under a name; None where none does."""
    own = run.replaced.get(name) if run.replaced else None
    given = [*args, *kwargs.values()]
    if own is None or not any(True for one in given for _ in local_data(one)):
        return None
    del run.replaced[name]
    try:
        return run.call(node, own, args, kwargs)
    finally:
        run.replaced[name] = own


def call_layer(
    run: RunState, node: cst.BaseExpression, layer: Instance, args: list[Value], kwargs: Keywords
) -> Value | None:
    """The same of a layer whose class was given another forward."""
    named = isinstance(layer.type, str) and bool(run.replaced)
    name = f"{layer.type}.forward" if named else ""
    return call(run, node, name, [value(layer), *args], kwargs) if named else None
