"""Options that are off unless they are given, and that commands of a project do not give."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.defaults import Defaults
from ddpify.understanding.texts import starts_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.understood import Understood
    from ddpify.understanding.taint.flow import Flow


def is_left_out(script: Understood, flow: Flow, test: cst.BaseExpression) -> bool:
    """``args.dist_eval``, where commands start the script and none has ``--dist_eval``."""
    if not isinstance(test, cst.Attribute):
        return False
    starts = starts_of(script.project.entry.path, script.texts)
    return bool(starts) and is_off(script, flow, test, starts)


def is_off(
    script: Understood, flow: Flow, test: cst.BaseExpression, commands: Collection[str]
) -> bool:
    """Whether a test does not hold with what any of these commands gives."""
    return Defaults(script, flow, commands).answer(test) is False
