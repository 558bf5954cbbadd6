"""Options that are off unless they are given, and that commands of a project do not give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.defaults import Defaults
from ddpify.understanding.texts import launches_of, starts_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.understood import Understood
    from ddpify.understanding.taint.flow import Flow


def is_left_out(script: Understood, flow: Flow, test: cst.BaseExpression) -> bool:
    """``args.dist_eval``, where commands start the script and none has ``--dist_eval``.

    One process alone may be asked for what its ranks are not.
    """
    if not isinstance(test, cst.Attribute):
        return False
    path, texts = script.project.entry.path, script.texts
    starts = launches_of(path, texts) or starts_of(path, texts)
    return bool(starts) and Defaults(script, flow, starts).answer(test) is False
