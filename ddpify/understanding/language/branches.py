"""Branches: what a test decides, and the values that its two sides leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import together
from ddpify.understanding.language import narrowing
from ddpify.understanding.syntax import is_main_guard
from ddpify.understanding.values import UNKNOWN, Instance, Value, join, value

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def if_(run: Interpreter, node: cst.If) -> bool:
    """An ``if`` with its ``elif`` and ``else``."""
    if is_main_guard(node.test):
        if run.module not in run.project.entries:
            return True
        return run.block(node.body)
    truth = condition(run, node.test)
    truth = narrowing.decided(run, node.test) if truth is None else truth
    return _branches(run, node, truth)


def _branches(run: Interpreter, node: cst.If, truth: bool | None) -> bool:
    """Run the branches that can be taken, each from the same start, and join what they do."""
    other = node.orelse
    start, batch = dict(run.frame.scope.names), run.at_hand
    taken = together.Taken(run)
    ends: list[dict[str, Value]] = []
    others: list[dict[str, Value]] = []
    left: frozenset[frozenset[Instance]] = frozenset()
    possible = _narrow(run, node.test, holds=True)
    if truth is not False and run.block(node.body):
        (ends if possible else others).append(dict(run.frame.scope.names))
        left = run.at_hand
    run.at_hand = batch
    taken.turn()
    run.frame.scope.names.clear()
    run.frame.scope.names.update(start)
    possible = _narrow(run, node.test, holds=False)
    if truth is not True:
        if other is None:
            reached = True
        elif isinstance(other, cst.If):
            reached = if_(run, other)
        else:
            reached = run.block(other.body)
        if reached:
            (ends if possible else others).append(dict(run.frame.scope.names))
            left |= run.at_hand
    run.at_hand = left
    taken.join()
    return join_ends(run, ends or others)


def _narrow(run: Interpreter, test: cst.BaseExpression, *, holds: bool) -> bool:
    """In a branch after a test of x's type, x is not what it cannot be; whether it is anything.

    What is taken for rows may turn out to be a list of them: then, a branch that is not for
    rows still has to be understood, but what it leaves is not.
    """
    found = narrowing.tested(run, test)
    held = run.frame.scope.names.get(found[0]) if found is not None else None
    if found is None or held is None:
        return True
    name, fits, positive = found
    fitting = [a for a in held.atoms if fits(a) in (holds is positive, None)]
    run.frame.scope.names[name] = value(*fitting) if fitting else held
    return bool(fitting) or fits is narrowing.is_tensor or not held


def join_ends(run: Interpreter, ends: list[dict[str, Value]]) -> bool:
    """Let the names be what any of these ends leaves; whether there is one."""
    if not ends:
        return False
    names = run.frame.scope.names
    names.clear()
    for name in dict.fromkeys(n for end in ends for n in end):
        names[name] = join(*(end[name] for end in ends if name in end))
    return True


def condition(run: Interpreter, test: cst.BaseExpression) -> bool | None:
    """Evaluate a test; its truth where it is a literal."""
    result = run.eval(test)
    run.demand(test, result, "a condition")
    return truth(run, test, result)


def truth(run: Interpreter, test: cst.BaseExpression, result: Value) -> bool | None:
    """Whether a test surely holds: literals, what the call passes, what follows from both.

    A name is a setting that the user may change, unless the call in progress gives its value;
    so is what an object of a library holds, such as the options of the command line.
    """
    constant = result.constant()
    if constant is ...:
        return None
    return None if _is_setting(run, test) else bool(constant)


def _is_setting(run: Interpreter, test: cst.BaseExpression) -> bool:
    if isinstance(test, cst.Name):
        return test.value not in run.frame.scope.passed
    owners = run.seen(test.value) if isinstance(test, cst.Attribute) else None
    return owners is not None and any(
        isinstance(a, Instance) and isinstance(a.type, str) for a in owners.atoms
    )


def try_(run: Interpreter, node: cst.Try) -> bool:
    """A ``try``: its body may end anywhere before a handler runs."""
    start, batch = dict(run.frame.scope.names), run.at_hand
    ends = []
    if run.block(node.body) and (node.orelse is None or run.block(node.orelse.body)):
        ends.append(dict(run.frame.scope.names))
    middle = dict(run.frame.scope.names)
    for handler in node.handlers:
        join_ends(run, [start, middle])
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            run.bind(handler.name.name.value, UNKNOWN)
        if run.block(handler.body):
            ends.append(dict(run.frame.scope.names))
    run.at_hand |= batch
    reached = join_ends(run, ends)
    if node.finalbody is not None:
        run.block(node.finalbody.body)
    return reached


def match(run: Interpreter, node: cst.Match) -> bool:
    """A ``match``, of which each case may be taken."""
    run.eval(node.subject)
    start = dict(run.frame.scope.names)
    ends = [start]
    for case in node.cases:
        join_ends(run, [start])
        if run.block(case.body):
            ends.append(dict(run.frame.scope.names))
    return join_ends(run, ends)
