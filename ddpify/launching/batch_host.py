"""Slurm's variables of a task that a batch script expands itself, before srun starts any task."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TASK_VARIABLE = re.compile(r"\$\{?(SLURM_NODEID|SLURM_PROCID|SLURM_LOCALID|SLURMD_NODENAME)\b")
_SRUN = re.compile(r"(?<![\w./-])srun(?=\s)")
_CONTINUED = re.compile(r"\\\r?\n")


def expanded_too_early(text: str) -> Iterator[tuple[int, str]]:
    """Where an ``srun`` command holds such a variable in the open: its place, and its name.

    The shell puts in what the variable is on the batch host, the same for all tasks. Within single
    quotes, or escaped, it is left to the task's own shell.
    """
    for start, end in _commands(text):
        command = text[start:end]
        srun = _SRUN.search(command)
        if srun is None or command.lstrip().startswith("#"):
            continue
        for found in _TASK_VARIABLE.finditer(command, srun.end()):
            if not _protected(command[: found.start()]):
                yield start + found.start(), found[1]


def _commands(text: str) -> Iterator[tuple[int, int]]:
    """Lines, each with those that continue it."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        while end > 0 and _CONTINUED.match(text, end - 1 - (text[end - 1] == "\r")):
            end = text.find("\n", end + 1)
        end = len(text) if end < 0 else end
        yield start, end
        start = end + 1


def _protected(before: str) -> bool:
    """Whether what follows ``before`` is within single quotes, or escaped."""
    quote, at = "", 0
    while at < len(before):
        sign = before[at]
        if sign == "\\" and quote != "'":
            at += 1
        elif sign == quote:
            quote = ""
        elif not quote and sign in "'\"":
            quote = sign
        at += 1
    return quote == "'" or before.endswith("\\")
