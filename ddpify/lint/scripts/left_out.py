"""Options that are off unless they are given, and that the commands of a project do not give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.texts import starts_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.understood import Understood


def is_left_out(script: Understood, test: cst.BaseExpression) -> bool:
    """``args.dist_eval``, where commands start the script and none has ``--dist_eval``."""
    if not isinstance(test, cst.Attribute) or not any(
        one.type == "argparse.Namespace" for one in script.instances(test.value)
    ):
        return False
    option = f"--{test.attr.value}"
    spellings = {option, option[:2] + option[2:].replace("_", "-")}
    if not _is_switch(script, spellings):
        return False
    starts = starts_of(script.project.entry.path, script.texts)
    given = (*spellings, "$")  # options may stand in a variable
    return bool(starts) and not any(one in line for line in starts for one in given)


def _is_switch(script: Understood, spellings: set[str]) -> bool:
    """Whether it is declared with ``action="store_true"``, and off by default."""
    declared = [
        call
        for call in script.method_calls("add_argument", everywhere=True)
        if any(
            isinstance(one.value, cst.SimpleString) and one.value.evaluated_value in spellings
            for one in call.args
            if one.keyword is None
        )
    ]
    return bool(declared) and all(map(_starts_off, declared))


def _starts_off(call: cst.Call) -> bool:
    action, default = argument(call, "action"), argument(call, "default")
    switches_on = action is not None and code_of(action.value).strip("\"'") == "store_true"
    return switches_on and (default is None or code_of(default.value) == "False")
