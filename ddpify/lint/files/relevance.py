"""Whether a file can be a training script at all, from words in it and in what it imports.

Most files of a project train nothing. For them the rules for old names remain, which need no more
than the file itself: reading, parsing and following what it imports would be in vain.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ddpify.lint.files.definitions import Defined, defined_in
from ddpify.lint.files.reached import Reached
from ddpify.source import Source
from ddpify.understanding.searching import LARGEST_MODULE, roots_of
from ddpify.understanding.text_imports import Imports, imported, imports_in

# What makes a file a distributed one: see ``Script.kind``.
_DISTRIBUTED = (
    "init_process_group DistributedDataParallel FullyShardedDataParallel fully_shard"
    " DistributedSampler".split()
)
_STARTS = re.compile("|".join(_DISTRIBUTED) + r"|ddpify(?:[._]runtime| import)")
# What a training calls, and a function with a gradient of its own defines: no word on old versions.
_BACKWARD = re.compile(r"backward(?!s\b|[- ]compat)")
# What makes a file one that runs by itself: it may start a training that other files hold.
_PROGRAM = re.compile(r"__main__|^[A-Za-z_][\w.]*\(", re.MULTILINE)
# What names such a file, or a training, in a tree.
_TRAINING = frozenset({*_DISTRIBUTED, "ddpify", "backward"})
MOST_FILES = 60  # of a project, beside which the rest is as a library
_MOST_TREES = 250  # that are looked at for one script
_Stamp = tuple[int, int]
_known: dict[str, tuple[_Stamp, bool, bool, Imports]] = {}
_known_trees: dict[str, tuple[_Stamp, int, Defined | None]] = {}  # with the hash of the text


def files_without_training(
    source: Source, folder: Path, most_files: int = MOST_FILES
) -> tuple[str, ...] | None:
    """The local files that a script imports, if neither they nor it have words of training."""
    if _has_training(source.text):
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


def files_never_started(source: Source, folder: Path) -> tuple[str, ...] | None:
    """The same, if what they have of training is in functions and classes that nothing names.

    A model may be in a package that has its data set's mean beside a distributed sampler. All files
    that it may import are looked at, also those beyond what is read of a project.
    """
    if _has_training(source.text):
        return None
    entry = os.path.realpath(source.path)
    bases = [str(root) for root in roots_of([Path(entry)], folder)]
    files, todo = {entry: _defined_by(entry, source.text)}, [entry]
    while todo:
        importer = todo.pop()
        defined = files[importer]
        if defined is None or len(files) > _MOST_TREES:
            return None
        new = dict.fromkeys(imported(defined.imports, importer, bases))
        todo += new.keys() - files.keys()
        files.update({one: _defined(one) for one in new if one not in files})
    known = {path: one for path, one in files.items() if one is not None}
    started = Reached(entry, known, bases).may_run(_TRAINING)
    return None if started else tuple(sorted(files.keys() - {entry}))


def _has_training(text: str) -> bool:
    """Whether a file has words of training itself."""
    return ("torch" in text and _BACKWARD.search(text) is not None) or bool(_STARTS.search(text))


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


def _defined(path: str) -> Defined | None:
    """What a file defines; read again if it changed."""
    try:
        state = os.stat(path)
        stamp = (state.st_mtime_ns, state.st_size)
        known = _known_trees.get(path)
        if known is None or known[0] != stamp:
            # What is larger is not read as code by the understanding either.
            small = state.st_size <= LARGEST_MODULE
            text = Path(path).read_text("utf-8", "replace") if small else ""
            known = _known_trees[path] = stamp, hash(text), defined_in(text)
    except OSError:
        return None
    return known[2]


def _defined_by(path: str, text: str) -> Defined | None:
    """What the text of a script defines, which may be another one than its file has."""
    known = _known_trees.get(path)
    return known[2] if known is not None and known[1] == hash(text) else defined_in(text)
