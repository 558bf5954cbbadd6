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
_REMOVING = frozenset({"rm", "rmdir", "unlink"})
_ELSEWHERE = (">", "&&", ";", "|", "$(", "`")


def only_tells(call: cst.CSTNode) -> bool:
    """Whether a command, as far as it is written out, is one that changes nothing."""
    given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
    found = [n for n in walk(given) if isinstance(n, cst.SimpleString)] if given else []
    words = " ".join(str(one.evaluated_value) for one in found).split()
    first = _first(words)
    if any(mark in word for mark in _ELSEWHERE for word in words):
        return False
    of_git = [word for word in words[1:] if not word.startswith("-")][:1]
    return first in _TELLING or (first == "git" and not _TELLING_OF_GIT.isdisjoint(of_git))


def takes_away(call: cst.CSTNode) -> bool:
    """``os.system(f"rm -rf {folder}")``: all processes may do so, and nothing is written."""
    given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
    texts = [
        node.value if isinstance(node, cst.FormattedStringText) else str(node.evaluated_value)
        for node in (walk(given) if given is not None else ())
        if isinstance(node, (cst.SimpleString, cst.FormattedStringText))
    ]
    words = " ".join(texts).split()
    return _first(words) in _REMOVING and not any(m in one for m in _ELSEWHERE for one in words)


def _first(words: list[str]) -> str:
    return words[0].rsplit("/", 1)[-1] if words else ""
