"""A stand-in for ``sbatch --test-only``: the options of a batch script, as its manual has them."""

from __future__ import annotations

import re
import shlex

_COUNT = r"[1-9]\d*"
_TIME = r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2}"
_OPTIONS = {
    "job-name": r"[\w.-]+",
    "output": r"[\w./%-]+",
    "nodes": rf"{_COUNT}(-{_COUNT})?",
    "ntasks-per-node": _COUNT,
    "cpus-per-task": _COUNT,
    "gpus-per-node": rf"([a-z]\w*:)?{_COUNT}",
    "gres": rf"\w+(:\w+)?(:{_COUNT})?",
    "mem": r"\d+[KMGT]?",
    "partition": r"[\w,-]+",
    "account": r"[\w-]+",
    "qos": r"[\w-]+",
    "time": _TIME,
    "signal": r"([RB]+:)?([A-Z]+|\d+)(@\d+)?",
    "open-mode": "append|truncate",
    "exclusive": "",
    "requeue": "",
}


def check(script: str) -> None:
    """Assert that options are known, have values that sbatch takes, and precede all commands."""
    lines = script.splitlines()
    assert lines[0].startswith("#!")
    commands = [n for n, line in enumerate(lines) if line and not line.startswith("#")]
    for number, line in enumerate(lines):
        if line.startswith("#SBATCH"):
            assert number < commands[0], f"not read, after a command: {line}"
            (word,) = shlex.split(line)[1:]
            name, _, value = word.removeprefix("--").partition("=")
            assert name in _OPTIONS, f"unknown option: {line}"
            assert re.fullmatch(_OPTIONS[name], value), f"wrong value: {line}"
