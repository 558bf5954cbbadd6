"""Loggers of Python's own kind that show on some ranks alone what they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.structure import walk

if TYPE_CHECKING:
    from ddpify.lint.scripts.script import Script

_SHOWING = frozenset({"info", "log"})
_SET = frozenset({"setLevel", "addHandler", "removeHandler"})
_CONFIGURING = ("logging.basicConfig", "logging.disable")
_LOGGERS = frozenset({"logging.getLogger", "logging.Logger"})


def is_logged_by_some(script: Script, call: cst.Call) -> bool:
    """Whether a call tells a logger something that some ranks alone show."""
    return _is_log(script, call) and script.once(_shows_on_some_ranks)


def _is_log(script: Script, call: cst.Call) -> bool:
    """``logging.info(x)``, ``logger.info(x)`` of a logger that is seen."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _SHOWING:
        return False
    return "logging.info" in script.names(func) or any(
        one.type in _LOGGERS for one in script.instances(func.value)
    )


def _shows_on_some_ranks(script: Script) -> bool:
    """Whether a level, or what writes to the screen or to a file, goes by the rank."""
    chosen = [
        *script.calls(*_CONFIGURING, everywhere=True),
        *(
            one
            for one in script.method_calls(*_SET, everywhere=True)
            if isinstance(one.func, cst.Attribute)
            and any(made.type in _LOGGERS for made in script.instances(one.func.value))
        ),
    ]
    return any(
        script.control.rank_guards(one)
        or any(
            script.control.asks_rank(inner.test)
            for given in one.args
            for inner in walk(given.value)
            if isinstance(inner, cst.IfExp)
        )
        for one in chosen
    )
