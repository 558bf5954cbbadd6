"""What ``with context as name`` binds to the name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.understanding.language import elements
from ddpify.understanding.libraries import own_methods
from ddpify.understanding.values import Atom, Instance, Value, either, value

if TYPE_CHECKING:
    import libcst as cst

    from ddpify.understanding.run_state import RunState


def bound(run: RunState, node: cst.BaseExpression, context: Value) -> Value:
    """What a context yields or its ``__enter__`` returns; of any other context, itself."""
    if not context.of(Instance):
        return context
    return either(*(_bound(run, node, atom) for atom in context.atoms))


def _bound(run: RunState, node: cst.BaseExpression, atom: Atom) -> Value:
    if not isinstance(atom, Instance):
        return value(atom)
    if atom.kind == "generator":  # a generator is a context by contextlib.contextmanager alone
        return elements.iterate(run, node, value(atom))
    given = own_methods.called(run, node, value(atom), "enter")
    return value(atom) if given is None else given
