"""Options that are off unless they are given, and that commands of a project do not give."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.texts import gives_more, starts_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.understood import Understood

_NOTHING = ("None", "False", "''", '""')


def is_left_out(script: Understood, test: cst.BaseExpression) -> bool:
    """``args.dist_eval``, where commands start the script and none has ``--dist_eval``."""
    if not isinstance(test, cst.Attribute):
        return False
    starts = starts_of(script.project.entry.path, script.texts)
    return bool(starts) and is_off(script, test, starts)


def is_off(script: Understood, test: cst.BaseExpression, commands: Collection[str]) -> bool:
    """Whether a test does not hold with what any of these commands gives."""
    if isinstance(test, cst.BooleanOperation):
        sides = (is_off(script, one, commands) for one in (test.left, test.right))
        return any(sides) if isinstance(test.operator, cst.And) else all(sides)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        asked = test.comparisons[0]
        if isinstance(asked.operator, cst.IsNot) and code_of(asked.comparator) == "None":
            return is_off(script, test.left, commands)
    if not isinstance(test, cst.Attribute) or not any(
        one.type == "argparse.Namespace" for one in script.instances(test.value)
    ):
        return False
    option = f"--{test.attr.value}"
    spellings = {option, option[:2] + option[2:].replace("_", "-")}
    return _starts_off(script, spellings) and not any(
        gives_more(line) or not spellings.isdisjoint(line.replace("=", " ").split())
        for line in commands
    )


def _starts_off(script: Understood, spellings: set[str]) -> bool:
    """Whether an option is a switch that is off, or has no value, unless it is given."""
    declared = [
        call
        for call in script.method_calls("add_argument", everywhere=True)
        if any(
            isinstance(one.value, cst.SimpleString) and one.value.evaluated_value in spellings
            for one in call.args
            if one.keyword is None
        )
    ]
    return bool(declared) and all(map(_is_nothing, declared))


def _is_nothing(call: cst.Call) -> bool:
    action, default = argument(call, "action"), argument(call, "default")
    kind = code_of(action.value).strip("\"'") if action is not None else "store"
    return kind in ("store", "store_true") and (
        default is None or code_of(default.value) in _NOTHING
    )
