"""Which of several wrappers a model may have where one option or another has wrapped it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import Instance


def may_be_one_of(
    script: Script, node: cst.CSTNode, model: cst.BaseExpression, wrappers: list[Instance]
) -> bool:
    """Whether no condition around a node keeps a model from having one of these wrappers there:
    no other answer to the question by which it was wrapped, and no other class.
    """
    here = [*_answers(script.control.guards(node))]
    kinds = {str(one.type) for one in wrappers if is_wrapper(one)}
    for test, positive in here:
        asked = _class_asked(script, test, model)
        if asked and asked.isdisjoint(kinds) is positive:
            return False
    answered = {(code_of(test), not positive) for test, positive in here}
    return any(
        answered.isdisjoint((code_of(test), yes) for test, yes in _answers(guards))
        for one in wrappers
        for guards in _where_wrapped(script, one)
    )


def _where_wrapped(script: Script, wrapper: Instance) -> Iterator[Sequence[Guard]]:
    sites = [one.site.node for one in script.wraps if one.wrapper is wrapper]
    sites += [event.site.node for event in script.events(wrapper, "shard")]
    yield from (script.control.guards(one) for one in sites or [wrapper.site])


def _class_asked(script: Script, test: cst.BaseExpression, model: cst.BaseExpression) -> set[str]:
    """``isinstance(model, FSDP)``: the classes of which a model may be."""
    if not isinstance(test, cst.Call) or "builtins.isinstance" not in script.names(test.func):
        return set()
    asked, kind = argument(test, "obj", 0), argument(test, "cls", 1)
    if asked is None or kind is None or code_of(asked.value) != code_of(model):
        return set()
    return script.names(kind.value)


def _answers(guards: Iterable[Guard]) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The questions of conditions, each with the answer that leads on."""
    for guard in guards:
        yield from _parts(guard.test, guard.positive)


def _parts(test: cst.BaseExpression, positive: bool) -> Iterator[tuple[cst.BaseExpression, bool]]:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _parts(test.expression, not positive)
    elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) is positive:
        yield from _parts(test.left, positive)
        yield from _parts(test.right, positive)
    else:
        yield test, positive
