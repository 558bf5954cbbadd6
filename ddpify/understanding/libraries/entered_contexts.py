"""What ``with context as name`` binds to the name, and ``stack.enter_context(context)`` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.understanding.libraries import own_methods
from ddpify.understanding.values import Atom, Instance, Value, either, value

if TYPE_CHECKING:
    import libcst as cst

    from ddpify.understanding.run_state import RunState


def method(run: RunState, node: cst.BaseExpression, name: str, args: list[Value]) -> Value | None:
    """What ``enter_context`` of an object gives; None for other methods."""
    return bound(run, node, args[0]) if name == "enter_context" and args else None


def bound(run: RunState, node: cst.BaseExpression, context: Value) -> Value:
    """What a context yields or its ``__enter__`` returns; of any other context, itself."""
    if not context.of(Instance):
        return context
    return either(*(_bound(run, node, atom) for atom in context.atoms))


def _bound(run: RunState, node: cst.BaseExpression, atom: Atom) -> Value:
    if not isinstance(atom, Instance):
        return value(atom)
    if atom.kind == "generator":  # a generator is a context by contextlib.contextmanager alone
        return run.iterate(node, value(atom))
    given = own_methods.called(run, node, value(atom), "enter")
    return value(atom) if given is None else given
