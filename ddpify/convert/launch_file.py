"""`ddpify convert` for launch files: the lint rule's fix, and what it cannot see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ddpify.convert.conversion import Conversion
from ddpify.errors import DdpifyError, ExitCode
from ddpify.launching.batch_host import expanded_too_early
from ddpify.launching.migration import (
    OldLaunch,
    find_script,
    is_comment,
    line_before,
    old_launches,
    wants_argument,
)
from ddpify.planning.edits import Note
from ddpify.source import Source

_USE_ENV = re.compile(r"(?<![\w-])--use[-_]env\b")


def migrate_file(path: Path) -> Conversion:
    """A launch file that starts torchrun where it started torch.distributed.launch.

    Raises:
        DdpifyError: It cannot be read (exit code 2), or starts nothing so (exit code 1).
    """
    source = _read(path)
    launches = list(old_launches(source.text))
    if not launches:
        raise DdpifyError(
            "nothing here starts torch.distributed.launch",
            path=str(path),
            remedy="make a launch file: ddpify launch SCRIPT --on torchrun, slurm or kubernetes",
        )
    text = source.text
    edits = sorted((e for one in launches for e in one.edits), reverse=True)
    for start, end, new in edits:
        text = text[:start] + new + text[end:]
    notes = [note for one in launches for note in _notes(one, source)]
    notes += [*_left_over(source, edits), *_too_early(source)]
    data = text.encode(source.encoding)
    return Conversion(source, data, tuple(sorted(notes, key=lambda n: n.line)), runs_with="bash")


def _read(path: Path) -> Source:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DdpifyError(
            f"cannot read: {error.strerror or error}", path=path, exit_code=ExitCode.USAGE
        ) from error
    try:
        return Source(str(path), data, data.decode(), "utf-8")
    except UnicodeDecodeError:
        return Source(str(path), data, data.decode("latin-1"), "latin-1")


def _left_over(source: Source, edits: list[tuple[int, int, str]]) -> Iterator[Note]:
    """Where ``--use-env`` is still given, through a variable: after a script it is the script's."""
    text = source.text
    for found in _USE_ENV.finditer(text):
        before = line_before(text, found.start())
        removed = any(start <= found.start() < end for start, end, _ in edits)
        if not removed and not is_comment(before) and ".py" not in before:
            line = text.count("\n", 0, found.start()) + 1
            said = "remove --use-env: torchrun does not know it"
            yield Note(source.path, line, said, attention=True)


def _too_early(source: Source) -> Iterator[Note]:
    """Where each node would be told that it is the first."""
    for at, name in expanded_too_early(source.text):
        line = source.text.count("\n", 0, at) + 1
        said = (
            f"${name} is expanded on the batch host, the same for all tasks: put the command in "
            "srun bash -c '...', or write it anew with ddpify launch --on slurm"
        )
        yield Note(source.path, line, said, attention=True)


def _notes(launch: OldLaunch, source: Source) -> Iterator[Note]:
    line = source.text.count("\n", 0, launch.start) + 1
    yield Note(source.path, line, "started with torchrun", "DDP905")
    if launch.uses_env:
        return
    script = find_script(launch.script, source.path)
    if script is None:
        shown = launch.script or "the script"
        said = f"torchrun passes no --local-rank: {shown} must read LOCAL_RANK"
        yield Note(source.path, line, said, attention=True)
    elif declared := wants_argument(script):
        said = (
            f"{script}:{declared} expects --local-rank, which torchrun does not pass: give it the "
            "default int(os.environ['LOCAL_RANK'])"
        )
        yield Note(source.path, line, said, attention=True)
