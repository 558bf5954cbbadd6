"""Branches: what a test decides, and the values that its two sides leave."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import narrowing, uses
from ddpify.understanding.batching import joint_loaders
from ddpify.understanding.language import branch_tests, patterns
from ddpify.understanding.libraries import own_methods
from ddpify.understanding.run_state.written import Branching
from ddpify.understanding.syntax import is_main_guard
from ddpify.understanding.values import UNKNOWN, Instance, Value, either, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def if_(run: RunState, node: cst.If) -> bool:
    """An ``if`` with its ``elif`` and ``else``."""
    if is_main_guard(node.test):
        if run.module not in run.project.entries:
            return True
        return run.block(node.body)
    truth = condition(run, node.test)
    truth = narrowing.decided(run, node.test) if truth is None else truth
    return _branches(run, node, truth)


@dataclass(eq=False, repr=False, slots=True)
class _End:
    """What one branch leaves: whether it can be taken, and not against a default alone."""

    names: dict[str, Value]
    possible: bool
    against: bool


def _branches(run: RunState, node: cst.If, truth: bool | None) -> bool:
    """Run the branches that can be taken, each from the same start, and join what they do."""
    start, batch, against = (
        dict(run.frame.scope.names),
        run.current_loaders,
        run.frame.against_default,
    )
    expected = branch_tests.by_defaults(run, node.test) if truth is None and not against else None
    taken = joint_loaders.Taken(run)
    ends: list[_End] = []
    written = Branching((run.written, *run.writing[-1:]))
    left: frozenset[frozenset[Instance]] = frozenset()
    for holds in (True, False):
        possible = _narrow(run, node.test, holds=holds)
        run.frame.against_default = against or expected is (not holds)
        if truth is not (not holds) and _side(run, node, holds):
            names = dict(run.frame.scope.names)
            ends.append(_End(names, possible, run.frame.against_default))
            left |= run.current_loaders
            written.reached()
        if holds:
            run.current_loaders = batch
            written.next_side()
            taken.next_side()
            run.frame.scope.names.clear()
            run.frame.scope.names.update(start)
    run.current_loaders = left
    taken.join()
    written.join()
    if node.orelse is None and len(ends) > 1 and _asks_a_setting(node.test):
        _drop_outdated(*ends)
    kept = [end for end in ends if end.possible] or ends
    kept = [end for end in kept if not end.against] or kept
    run.frame.against_default = any(end.against for end in kept) or against
    return join_ends(run, [end.names for end in kept])


def _asks_a_setting(test: cst.BaseExpression) -> bool:
    """Whether a test compares with a text, as ``kind == "faces"`` does: alike in all rounds."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    return isinstance(test.comparisons[0].comparator, cst.SimpleString)


def _drop_outdated(taken: _End, passed: _End) -> None:
    """Where a setting leaves a branch out, no name holds what it made of an earlier batch."""
    for name, held in taken.names.items():
        if held.data and not _is_past(held) and _is_past(passed.names.get(name, UNKNOWN)):
            del passed.names[name]


def _is_past(held: Value) -> bool:
    return any(data.past for data in held.data)


def _side(run: RunState, node: cst.If, holds: bool) -> bool:
    """Run one side of an ``if``; whether its end is reached."""
    if holds:
        return run.block(node.body)
    if isinstance(node.orelse, cst.If):
        return if_(run, node.orelse)
    return node.orelse is None or run.block(node.orelse.body)


def _narrow(run: RunState, test: cst.BaseExpression, *, holds: bool) -> bool:
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


def join_ends(run: RunState, ends: list[dict[str, Value]]) -> bool:
    """Let the names be what any of these ends leaves; whether there is one."""
    if not ends:
        return False
    names = run.frame.scope.names
    names.clear()
    for name in dict.fromkeys(chain.from_iterable(ends)):
        names[name] = either(*[end[name] for end in ends if name in end])
    for name in [one for one in names if "." in one and not all(one in end for end in ends)]:
        del names[name]  # an attribute that is not set on one of the ways
    return True


def condition(run: RunState, test: cst.BaseExpression) -> bool | None:
    """Evaluate a test; its truth where it is a literal, or decided."""
    result = run.eval(test)
    decided = run.choices.one_device.get(test)
    if decided is not None:
        return decided
    run.demand(test, result, uses.A_CONDITION)
    run.demand(test, own_methods.truth(run, test, result), uses.A_CONDITION)
    return branch_tests.truth(run, test, result)


def try_(run: RunState, node: cst.Try) -> bool:
    """A ``try``: its body may end anywhere before a handler runs."""
    start, batch, against = (
        dict(run.frame.scope.names),
        run.current_loaders,
        run.frame.against_default,
    )
    ends = []
    if run.block(node.body) and (node.orelse is None or run.block(node.orelse.body)):
        ends.append(dict(run.frame.scope.names))
    middle, anywhere = dict(run.frame.scope.names), run.current_loaders | batch
    left = run.current_loaders if ends else frozenset()
    for handler in node.handlers:
        join_ends(run, [start, middle])
        run.current_loaders = anywhere
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            run.bind(handler.name.name.value, UNKNOWN)
        if run.block(handler.body):
            ends.append(dict(run.frame.scope.names))
            left |= run.current_loaders
    run.current_loaders = left or anywhere
    reached = join_ends(run, ends)
    run.frame.against_default = against
    if node.finalbody is not None:
        run.block(node.finalbody.body)
    return reached


def match(run: RunState, node: cst.Match) -> bool:
    """A ``match``, of which each case may be taken."""
    held = run.eval(node.subject)
    start, against = dict(run.frame.scope.names), run.frame.against_default
    ends = [start]
    for case in node.cases:
        join_ends(run, [start])
        run.frame.against_default = against
        patterns.match(run, case.pattern, node.subject, held)
        if case.guard is not None:
            condition(run, case.guard)
        if run.block(case.body):
            ends.append(dict(run.frame.scope.names))
    run.frame.against_default = against
    return join_ends(run, ends)
