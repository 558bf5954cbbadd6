"""Whether a node has one rank, so that no ranks meet on its GPUs and in its folders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.defaults import Defaults
from ddpify.lint.scripts.launches import launches
from ddpify.lint.scripts.number_of_ranks import is_one, started

if TYPE_CHECKING:
    from ddpify.lint.scripts.script import Script

_ON_NODES = re.compile(r"\s--?(?:n|nodes|nnodes?|num[-_]nodes)[=\s]+(?!1(?!\d))\d")


def starts_one_rank_a_node(script: Script) -> bool:
    """Whether a script itself starts its ranks, on each node one: ``mp.spawn(main, nprocs=1)``, or
    as many as an option says, which is one in all commands that start it on several nodes.
    """
    counts = started(script.control)
    return bool(counts) and all(
        is_one(script.control, one) or _is_one_by_commands(script, one) for one in counts
    )


def _is_one_by_commands(script: Script, given: cst.Arg | None) -> bool:
    """Whether all commands for several nodes leave a number of processes at one."""
    commands = launches(script).of_ranks
    if given is None or not commands or not all(map(_ON_NODES.search, commands)):
        return False
    told = (Defaults(script, script.flow, [one]) for one in commands)
    return all(one.values(given.value) == {1} for one in told)
