"""Scripts that wrap a model where an option says so, and start no process group for it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import called, initialisers

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control

# Words of a call that may start one, in code that ddpify cannot read. They only ever keep findings.
_MAY_START = re.compile(
    r"(?i)(?<!_)init_|initiali[sz]e|set_?up|launch|spawn|accelerat|distrib|(?<![a-z])dist|ddp|fabric"
    r"|hvd|horovod|mpi"
)


@lru_cache(maxsize=4)  # it is asked about each finding
def starts_no_group(control: Control) -> bool:
    """Whether a file that is run reaches wrappers by options alone, and a process group never.

    What wraps is then for other scripts of the project: this one has one process.
    """
    script = control.script
    if script.has_runtime or control.spawned or not script.is_whole_program:
        return False
    places = [wrap.site.node for wrap in script.wraps]
    if not places or script.uses(INIT_GROUP) or not all(map(control.guards, places)):
        return False
    return all(script.structure_of(one) is not script.structure for one in places) and not any(
        _may_start(control, call)
        for structure in script.structures.values()
        for call in structure.all(cst.Call)
    )


def _may_start(control: Control, call: cst.Call) -> bool:
    """Whether a call that is reached leads out of sight, and by its words to a process group."""
    script = control.script
    words = (one.value for one in walk(call.func) if isinstance(one, cst.Name))
    if call.func not in script.facts.values or not any(map(_MAY_START.search, words)):
        return False
    if any(one.startswith(("torch.", "builtins.")) for one in script.names(call.func)):
        return False
    return not any(True for _ in (*called(script.facts, call), *initialisers(script.facts, call)))
