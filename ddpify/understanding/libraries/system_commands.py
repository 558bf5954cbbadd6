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
TYPED = frozenset({"builtins.input", "getpass.getpass", "sys.stdin.readline", "sys.stdin.read"})
_TELLING = frozenset(
    "hostname uname which whoami cat ls wc echo date pwd du df lscpu free nvidia-smi nvcc stat id"
    " head tail grep file ps nproc tty stty".split()
)
_TELLING_OF_GIT = frozenset("rev-parse describe log status diff show branch rev-list".split())
_REMOVING = frozenset({"rm", "rmdir", "unlink"})
_ELSEWHERE = (">", "&&", ";", "|", "$(", "`")


def only_tells(call: cst.CSTNode) -> bool:
    """Whether a command, as far as it is written out, is one that changes nothing."""
    words = _words(call, cst.SimpleString)
    first = _first(words)
    of_git = [word for word in words[1:] if not word.startswith("-")][:1]
    telling = first in _TELLING or (first == "git" and not _TELLING_OF_GIT.isdisjoint(of_git))
    return telling and not _goes_on(words)


def takes_away(call: cst.CSTNode) -> bool:
    """``os.system(f"rm -rf {folder}")``: all processes may do so, and nothing is written."""
    words = _words(call, cst.SimpleString, cst.FormattedStringText)
    return _first(words) in _REMOVING and not _goes_on(words)


def makes_folders(call: cst.CSTNode) -> bool:
    """``os.system("mkdir -p runs")``: it does not matter which process comes first."""
    words = _words(call, cst.SimpleString, cst.FormattedStringText)
    return _first(words) == "mkdir" and "-p" in words and not _goes_on(words)


def installs(call: cst.CSTNode) -> bool:
    """``os.system("pip install -U timm")``: it writes no file of the script's."""
    words = _words(call, cst.SimpleString, cst.FormattedStringText)
    return "install" in words and not {"pip", "pip3", "conda", "apt-get"}.isdisjoint(words)


def _words(call: cst.CSTNode, *texts: type[cst.CSTNode]) -> list[str]:
    """The words of a command that stand in texts of these kinds."""
    given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
    found = [node for node in (walk(given) if given is not None else ()) if isinstance(node, texts)]
    return " ".join(map(_text, found)).split()


def _text(node: cst.CSTNode) -> str:
    if isinstance(node, cst.FormattedStringText):
        return node.value
    return str(cst.ensure_type(node, cst.SimpleString).evaluated_value)


def _first(words: list[str]) -> str:
    return words[0].rsplit("/", 1)[-1] if words else ""


def _goes_on(words: list[str]) -> bool:
    """Whether another command follows, or a file takes what this one prints."""
    return any(mark in word for mark in _ELSEWHERE for word in words)
