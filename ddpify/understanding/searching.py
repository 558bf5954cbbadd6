"""The folders in which a script's imports are looked for, as Python would."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

# Of an imported module, in bytes: what is larger is data written as code, and reading it as code
# would take more time and memory than all the rest of a project.
LARGEST_MODULE = 500_000


def search_path(beside: list[Path], inner: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The entries' own folders, some inside their project, ``PYTHONPATH``, and those above."""
    return tuple(dict.fromkeys([*beside, *inner, *_python_path(), *_around(beside[0])]))


def roots_of(entries: Iterable[Path], folder: Path | None = None) -> tuple[Path, ...]:
    """Where scripts look for what they import; of a project's folder, those above them and ``src``.

    Args:
        entries: The scripts' files, with links followed.
        folder: The project that they are in, where that is known.
    """
    beside = [entry.parent for entry in entries]
    if folder is None:
        return search_path(beside)
    root = folder.resolve()
    inside = [one for start in beside for one in start.parents if one.is_relative_to(root)]
    return search_path(beside, [*inside, root, root / "src"])


def real_path(path: str) -> str:
    """A file's path with links followed: of its folder, which has many that are asked for, once."""
    folder, name = os.path.split(path)
    real = os.path.join(_real_folder(folder), name)
    return os.path.realpath(real) if os.path.islink(real) else real


@lru_cache(maxsize=256)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def repository(path: Path) -> Path | None:
    """The root of the repository that a file is in."""
    return next((folder for folder in path.parents if _is_root(folder)), None)


def _is_root(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in (".git", "pyproject.toml", "setup.py"))


def _python_path() -> list[Path]:
    """The folders of the environment's ``PYTHONPATH``."""
    given = os.environ.get("PYTHONPATH", "")
    return [Path(part).resolve() for part in given.split(os.pathsep) if part]


def _around(folder: Path) -> list[Path]:
    """The folders from the script's up to the root of its repository, if it is in one."""
    above = []
    for parent in folder.parents:
        above.append(parent)
        if _is_root(parent):
            return above
    return []
