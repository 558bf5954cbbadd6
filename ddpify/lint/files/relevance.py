"""Whether a file can be a training script at all, from words in it and in what it imports.

Most files of a project train nothing. For them the rules for old names remain, which need no more
than the file itself: reading, parsing and following what it imports would be in vain.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ddpify.source import Source
from ddpify.understanding.searching import roots_of
from ddpify.understanding.text_imports import Imports, imported, imports_in

# What makes a file a distributed one: see ``Script.kind``.
_STARTS = re.compile(
    r"init_process_group|DistributedDataParallel|FullyShardedDataParallel|fully_shard"
    r"|DistributedSampler|ddpify(?:[._]runtime| import)"
)
# What a training calls, and a function with a gradient of its own defines: no word on old versions.
_BACKWARD = re.compile(r"backward(?!s\b|[- ]compat)")
# What makes a file one that runs by itself: it may start a training that other files hold.
_PROGRAM = re.compile(r"__main__|^[A-Za-z_][\w.]*\(", re.MULTILINE)
MOST_FILES = 60  # of a project, beside which the rest is as a library
_Stamp = tuple[int, int]
_known: dict[str, tuple[_Stamp, bool, bool, Imports]] = {}


def files_without_training(
    source: Source, folder: Path, most_files: int = MOST_FILES
) -> tuple[str, ...] | None:
    """The local files that a script imports, if neither they nor it have words of training."""
    text = source.text
    if ("torch" in text and _BACKWARD.search(text)) or _STARTS.search(text):
        return None
    program = is_program(source)
    entry = os.path.realpath(source.path)
    bases = [str(root) for root in roots_of([Path(entry)], folder)]
    seen, todo = {entry}, list(imported(imports_in(source.text), entry, bases))
    while todo and len(seen) < most_files:
        path = todo.pop(0)
        if path in seen:
            continue
        seen.add(path)
        starts, trains, imports = _look(path)
        if starts or (program and trains):
            return None
        todo += imported(imports, path, bases)
    return tuple(sorted(seen - {entry}))


def is_program(source: Source) -> bool:
    """Whether a file may do more than define: it is run, or acts when it is imported."""
    return _PROGRAM.search(source.text) is not None


def _look(path: str) -> tuple[bool, bool, Imports]:
    """Whether a file has words of either kind, and what it imports; read again if it changed."""
    try:
        state = os.stat(path)
        stamp = (state.st_mtime_ns, state.st_size)
        known = _known.get(path)
        if known is None or known[0] != stamp:
            text = Path(path).read_text("utf-8", "replace")
            starts = bool(_STARTS.search(text))
            trains = ".backward(" in text and "torch" in text
            known = _known[path] = (stamp, starts, trains, imports_in(text))
    except OSError:
        return False, False, ()
    return known[1:]
