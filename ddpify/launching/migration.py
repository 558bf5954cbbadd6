"""From torch.distributed.launch to torchrun, in shell scripts, batch files and Makefiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MODULE = re.compile(r"-m(?:[ \t]|\\\r?\n)+torch\.distributed\.launch\b")
# Options of the interpreter go with it: they were the launcher's alone.
_PYTHON = re.compile(r"(?:(?<=[\s;&|(`\"'=@])|^)python[0-9.]*(?:\s+-[a-zA-Z]+)*\s+$")
_WORD = re.compile(r"""(?:[^\s"'\\;&|)]|\\[^\n]|"(?:\\.|[^"\\\n])*"|'[^'\n]*')+""")
_GAP = re.compile(r"(?:[ \t]|\\\r?\n)*")
_USE_ENV = ("--use-env", "--use_env")
_FLAGS = (*_USE_ENV, "--standalone", "-m", "--module", "--no-python", "--no_python")
_LOCAL_RANK = re.compile(r"""["']--local[-_]rank["']""")


@dataclass(frozen=True, slots=True)
class OldLaunch:
    """A command that starts training through torch.distributed.launch.

    Attributes:
        start: Where it begins in the text (characters from 0): at the interpreter, if that goes.
        end: Past the module's name.
        edits: What makes it a torchrun command: start, end and the text to put there.
        uses_env: Whether ``--use-env`` is given, so that the script reads LOCAL_RANK already.
        script: The Python script that it starts; None where a variable hides it.
    """

    start: int
    end: int
    edits: tuple[tuple[int, int, str], ...]
    uses_env: bool
    script: str | None


def old_launches(text: str) -> Iterator[OldLaunch]:
    """The commands in a file's text, outside of comments."""
    for module in _MODULE.finditer(text):
        before = line_before(text, module.start())
        if is_comment(before):
            continue
        python = _PYTHON.search(before)
        if python:
            start = module.start() - len(before) + python.start()
            edit = (start, module.end(), "torchrun")
        else:
            # An interpreter that is chosen elsewhere stays: its torchrun may not be the PATH's.
            start = module.start()
            edit = (module.end() - len("launch"), module.end(), "run")
        use_env, script = _arguments(text, module.end())
        removals = [_without(text, *place) for place in use_env]
        yield OldLaunch(start, module.end(), (edit, *removals), bool(use_env), script)


def line_before(text: str, at: int) -> str:
    """What stands before a place in its line."""
    return text[text.rfind("\n", 0, at) + 1 : at]


def is_comment(line: str) -> bool:
    """Whether a line, or the start of one, is a comment of a shell, a Makefile or a batch file."""
    return line.lstrip().startswith(("#", "REM ", "::"))


def _arguments(text: str, at: int) -> tuple[list[tuple[int, int]], str | None]:
    """Where the launcher's own arguments hold ``--use-env``, and the script after them."""
    use_env: list[tuple[int, int]] = []
    value_follows = False
    for word in _words(text, at):
        name = word.group()
        if value_follows:
            value_follows = False
        elif name in _USE_ENV:
            use_env.append(word.span())
        elif name.startswith("-"):
            value_follows = "=" not in name and name not in _FLAGS
        elif not name.startswith("$"):
            return use_env, name.strip("\"'") if name.strip("\"'").endswith(".py") else None
    return use_env, None


def _words(text: str, at: int) -> Iterator[re.Match[str]]:
    """The words of a command from there to its end, over continued lines."""
    while True:
        gap = _GAP.match(text, at)
        word = _WORD.match(text, gap.end() if gap else at)
        if word is None:
            return
        yield word
        at = word.end()


def _without(text: str, start: int, end: int) -> tuple[int, int, str]:
    """Removes a word: with its line where it has one of its own, else with a space beside it."""
    line = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*\\\r?\n").match(text, end)
    if rest and not text[line:start].strip():
        return line, rest.end(), ""
    if text[end : end + 1] == " ":
        return start, end + 1, ""
    return start - (text[start - 1] == " "), end, ""


def wants_argument(script: Path) -> int | None:
    """The line where a script declares ``--local-rank`` without a default from the environment.

    torch.distributed.launch passes that argument, torchrun sets LOCAL_RANK instead. None where the
    script declares no such option, reads LOCAL_RANK, or cannot be read.
    """
    if not script.is_file():
        return None
    text = script.read_text(encoding="utf-8", errors="replace")
    found = _LOCAL_RANK.search(text)
    if found is None or "LOCAL_RANK" in text:
        return None
    return text.count("\n", 0, found.start()) + 1


def find_script(name: str | None, launch_file: str) -> Path | None:
    """The script that a launch file names: beside it, or in the working folder."""
    if name is None:
        return None
    places = (Path(launch_file).parent / name, Path(name))
    return next((place for place in places if place.is_file()), None)
