"""Progress bars, which show what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.object_kinds import BARS

if TYPE_CHECKING:
    from ddpify.lint.scripts.script import Script

_SHOWING = frozenset({"set_postfix", "set_postfix_str", "set_description", "set_description_str"})


def is_told_to_bar(script: Script, call: cst.Call) -> bool:
    """``bar.set_postfix(loss=loss)`` of a bar that is seen."""
    return any(True for _ in _bars(script, call))


def is_shown_by_some(script: Script, call: cst.Call) -> bool:
    """Whether the bar of a call is left out on some ranks: ``disable=rank > 0``."""
    made = [*_bars(script, call)]
    return bool(made) and all(_is_left_out_by_rank(script, one) for one in made)


def _bars(script: Script, call: cst.Call) -> Iterator[cst.CSTNode | None]:
    """Where the bars are made that a call tells what to show."""
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value in _SHOWING:
        yield from (one.site for one in script.instances(func.value) if one.type in BARS)


def _is_left_out_by_rank(script: Script, made: cst.CSTNode | None) -> bool:
    return isinstance(made, cst.Call) and any(
        one.keyword is not None
        and one.keyword.value == "disable"
        and script.control.asks_rank(one.value)
        for one in made.args
    )
