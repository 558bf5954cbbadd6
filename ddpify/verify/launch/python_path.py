"""Where a script's modules come from besides its folder: PYTHONPATH, and projects that are
installed as they lie (``pip install -e``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import ddpify
from ddpify.verify.launch.copies import Copy
from ddpify.verify.launch.layout import Layout

Leads = tuple[tuple[str, str], ...]
"""Folders of the user, each with the folder of the copy to read modules from instead."""


def folders() -> list[Path]:
    """The folders of Python's path that hold projects of the user."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = (Path(entry).resolve() for entry in (*named, *sys.path) if entry)
    return list(dict.fromkeys(path for path in found if is_project(path)))


def is_project(folder: Path) -> bool:
    """Whether ``folder`` is neither the interpreter's nor one of installed packages."""
    installed = {"site-packages", "dist-packages"} & set(folder.parts)
    own = Path(ddpify.__file__).resolve().parent.parent
    interpreter = (Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix))
    below = any(prefix == folder or prefix in folder.parents for prefix in interpreter)
    return not installed and not below and folder != own and folder.is_dir()


def leads(layout: Layout, copy: Copy, *, converted: bool) -> Leads:
    """Where the modules of the user's folders are in ``copy``, the first that exists counting.

    The same folders serve both scripts: modules that are converted are found in place of the
    original's, and the other way round.
    """
    pairs = [(layout.root, copy.root)]
    pairs += [(Path(os.path.normpath(layout.root / path)), copy.root / path)
              for path in layout.above]  # fmt: skip
    source, place = layout.counterpart
    laid = copy.root / place
    if layout.root in source.parents:
        laid = copy.root / source.relative_to(layout.root)
    if converted:
        pairs = [(source, laid), (layout.root / place, laid), *pairs]
    elif source != layout.root / place:
        pairs = [(source, copy.root / place), *pairs]
    return tuple((str(mine), os.path.normpath(there)) for mine, there in pairs)


def led(entry: str, leads: Leads) -> Iterator[str]:
    """The folders to read modules from in place of ``entry``, itself if it is not copied."""
    path = Path(entry).resolve()
    found = []
    for mine, there in leads:
        if path == Path(mine) or Path(mine) in path.parents:
            found.append(str(Path(there, path.relative_to(mine))))
    existing = [folder for folder in dict.fromkeys(found) if Path(folder).is_dir()]
    yield from existing or [entry]
