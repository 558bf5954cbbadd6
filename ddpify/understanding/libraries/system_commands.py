"""Commands of the system: which of them only tell something, and change nothing."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.structure import walk

# What they give is that of a command: how it ended, or what it printed.
ASKING = frozenset(
    {
        "subprocess.check_output", "subprocess.getoutput", "subprocess.getstatusoutput",
        "commands.getoutput", "commands.getstatusoutput",
    }
)  # fmt: skip
_TELLING = frozenset(
    "hostname uname which whoami cat ls wc echo date pwd du df lscpu free nvidia-smi nvcc stat id"
    " head tail grep file ps nproc tty stty".split()
)
_TELLING_OF_GIT = frozenset("rev-parse describe log status diff show branch rev-list".split())
_ELSEWHERE = (">", "&&", ";", "|", "$(", "`")


def only_tells(call: cst.CSTNode) -> bool:
    """Whether a command, as far as it is written out, is one that changes nothing."""
    given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
    found = [n for n in walk(given) if isinstance(n, cst.SimpleString)] if given else []
    words = " ".join(str(one.evaluated_value) for one in found).split()
    first = words[0].rsplit("/", 1)[-1] if words else ""
    if any(mark in word for mark in _ELSEWHERE for word in words):
        return False
    of_git = [word for word in words[1:] if not word.startswith("-")][:1]
    return first in _TELLING or (first == "git" and not _TELLING_OF_GIT.isdisjoint(of_git))
