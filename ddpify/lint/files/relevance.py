"""Whether a file can be a training script at all, from words in it and in what it imports.

Most files of a project train nothing. For them the rules for old names remain, which need no more
than the file itself: reading, parsing and following what it imports would be in vain.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ddpify.source import Source
from ddpify.understanding.searching import real_path, roots_of

# What makes a file a distributed one: see ``Script.kind``.
_STARTS = re.compile(
    r"init_process_group|DistributedDataParallel|FullyShardedDataParallel|fully_shard"
    r"|DistributedSampler|ddpify(?:[._]runtime| import)"
)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)"
    r"|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
# What makes a file one that runs by itself: it may start a training that other files hold.
_PROGRAM = re.compile(r"__main__|^[A-Za-z_][\w.]*\(", re.MULTILINE)
MOST_FILES = 60  # of a project, beside which the rest is as a library
_Stamp = tuple[int, int]
_Imports = tuple[tuple[int, str, tuple[str, ...]], ...]
_known: dict[str, tuple[_Stamp, bool, bool, _Imports]] = {}


def files_without_training(
    source: Source, folder: Path, most_files: int = MOST_FILES
) -> tuple[str, ...] | None:
    """The local files that a script imports, if neither they nor it have words of training."""
    text = source.text
    if ("torch" in text and "backward" in text) or _STARTS.search(text):
        return None
    program = is_program(source)
    entry = os.path.realpath(source.path)
    bases = [str(root) for root in roots_of([Path(entry)], folder)]
    seen, todo = {entry}, list(_imported(_imports(source.text), entry, bases))
    while todo and len(seen) < most_files:
        path = todo.pop(0)
        if path in seen:
            continue
        seen.add(path)
        starts, trains, imports = _look(path)
        if starts or (program and trains):
            return None
        todo += _imported(imports, path, bases)
    return tuple(sorted(seen - {entry}))


def is_program(source: Source) -> bool:
    """Whether a file may do more than define: it is run, or acts when it is imported."""
    return _PROGRAM.search(source.text) is not None


def _look(path: str) -> tuple[bool, bool, _Imports]:
    """Whether a file has words of either kind, and what it imports; read again if it changed."""
    try:
        state = os.stat(path)
        stamp = (state.st_mtime_ns, state.st_size)
        known = _known.get(path)
        if known is None or known[0] != stamp:
            text = Path(path).read_text("utf-8", "replace")
            starts = bool(_STARTS.search(text))
            trains = ".backward(" in text and "torch" in text
            known = _known[path] = (stamp, starts, trains, _imports(text))
    except OSError:
        return False, False, ()
    return known[1:]


def _imports(text: str) -> _Imports:
    """Level, module and names of each import in a text, wherever it stands."""
    found = []
    for dots, module, names, plain in _IMPORT.findall(text):
        if plain:
            found += [(0, one.split(" as ")[0].strip(), ()) for one in plain.split(",")]
        else:
            words = [one.split(" as ")[0].strip() for one in names.strip("()").split(",")]
            found.append((len(dots), module, tuple(w for w in words if w.isidentifier())))
    return tuple(dict.fromkeys(found))


def _imported(imports: _Imports, importer: str, roots: list[str]) -> Iterator[str]:
    """The local files that these imports may read."""
    for level, module, names in imports:
        folders = roots
        if level:
            base = os.path.dirname(importer)
            for _ in range(level - 1):
                base = os.path.dirname(base)
            folders = [base]
        parts = module.replace(".", os.sep)
        for folder in folders:
            stem = os.path.join(folder, parts) if parts else folder
            if os.path.isfile(stem + ".py"):
                yield real_path(stem + ".py")
            elif os.path.isdir(stem):
                for name in ("__init__", *names):
                    inner = os.path.join(stem, name)
                    if os.path.isfile(inner + ".py"):
                        yield real_path(inner + ".py")
                    elif os.path.isfile(os.path.join(inner, "__init__.py")):
                        yield real_path(os.path.join(inner, "__init__.py"))
            else:
                continue
            break
