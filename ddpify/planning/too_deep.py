"""Why a script's calls cannot be followed to their end: which of them go into each other."""

from __future__ import annotations

from collections import Counter
from types import TracebackType

import libcst as cst

from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.language.calls import call_in
from ddpify.understanding.project import Project


def refusal(project: Project, error: RecursionError) -> Refusal:
    """The function that was being run most often at once, with the call that went into it again."""
    calls = list(_in_progress(error.__traceback__))
    times = Counter(function for function, _ in calls)
    function, often = times.most_common(1)[0] if times else (None, 0)
    if often < _OFTEN or not isinstance(function, cst.FunctionDef):
        message = "its calls are nested deeper than ddpify follows them"
        return Refusal(project.entry, None, message, _REMEDY)
    site = next(site for one, site in reversed(calls) if one is function)
    message = (
        f"{function.name.value}() is called here while it runs already, {often} times over: objects"
        " that the same line makes are taken for one, as a layer within a layer of its kind"
    )
    return Refusal(site.module, site.node, message, _REMEDY)


_OFTEN = 2  # calls of one function at once
_REMEDY = (
    "this is a limit of ddpify's, not an error of the script; a model whose classes do not make"
    " each other can be followed"
)


def _in_progress(trace: TracebackType | None) -> list[tuple[cst.CSTNode, Site]]:
    """The functions that were run when an error came up, outermost first, with their calls."""
    found = []
    while trace is not None:
        call = call_in(trace.tb_frame)
        if call is not None:
            found.append(call)
        trace = trace.tb_next
    return found
