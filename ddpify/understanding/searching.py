"""The folders in which a script's imports are looked for, as Python would."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def search_path(beside: list[Path], inner: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The entries' own folders, some inside their project, ``PYTHONPATH``, and those above."""
    return tuple(dict.fromkeys([*beside, *inner, *_python_path(), *_around(beside[0])]))


def _python_path() -> list[Path]:
    """The folders of the environment's ``PYTHONPATH``."""
    given = os.environ.get("PYTHONPATH", "")
    return [Path(part).resolve() for part in given.split(os.pathsep) if part]


def _around(folder: Path) -> list[Path]:
    """The folders from the script's up to the root of its repository, if it is in one."""
    above = []
    for parent in folder.parents:
        above.append(parent)
        if any((parent / mark).exists() for mark in (".git", "pyproject.toml", "setup.py")):
            return above
    return []
