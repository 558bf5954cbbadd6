"""What of a project's folder goes along to the output, and what is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ddpify.understanding.libraries.runtime_names import is_vendored
from ddpify.understanding.project import is_left_out

MOST_BYTES = 1 << 20
MOST_FILES = 1000
_SOURCE = frozenset({".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".ipynb"})


@dataclass(frozen=True, slots=True)
class Left:
    """A file or folder that is not copied, relative to the project, and why."""

    path: Path
    why: str


@dataclass(slots=True)
class Stock:
    """The content of a project's folder; all paths are relative to it.

    ``files`` holds symbolic links too, which are copied as links.
    """

    folders: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


def take_stock(folder: Path, *, output: Path | None, everything: bool) -> Stock:
    """Look through a project's folder.

    Left behind are data and weights: files of more than ``MOST_BYTES`` bytes that are no source,
    and folders with more than ``MOST_FILES`` files and no source among them; with ``everything``
    these come along. Version control, caches, environments and the output itself never do, and
    are not mentioned.
    """
    stock = Stock()
    root = folder.resolve()
    skipped = output.resolve() if output is not None else None
    for place, folders, files in os.walk(root):
        here = Path(place)
        if not everything and _is_data(files):
            stock.left.append(Left(here.relative_to(root), f"{len(files)} files"))
            folders.clear()
            continue
        stock.folders.append(here.relative_to(root))
        links = [name for name in folders if (here / name).is_symlink()]
        for name in sorted([*files, *links]):
            if not is_left_out(here / name, root):
                _take(stock, here / name, root, everything)
        folders[:] = sorted(
            name
            for name in folders
            if name not in links and here / name != skipped and not is_left_out(here / name, root)
        )
    return stock


def _is_data(files: list[str]) -> bool:
    return len(files) > MOST_FILES and not any(Path(name).suffix in _SOURCE for name in files)


def _take(stock: Stock, path: Path, root: Path, everything: bool) -> None:
    relative = path.relative_to(root)
    if path.is_symlink():
        stock.files.append(relative)
    elif not path.is_file():
        stock.left.append(Left(relative, "neither a file nor a folder"))
    elif everything or path.suffix in _SOURCE or path.stat().st_size <= MOST_BYTES:
        stock.files.append(relative)
    else:
        stock.left.append(Left(relative, _size(path.stat().st_size)))


def _size(count: int) -> str:
    """A number of bytes, in the largest unit that leaves at least one."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def training_scripts(folder: Path) -> Iterator[Path]:
    """Files, relative to the folder, that look as if they start a training by themselves."""
    for path in sorted(folder.rglob("*.py")):
        if path.is_file() and not is_left_out(path, folder):
            text = path.read_text(encoding="utf-8", errors="replace")
            starts = "torch" in text and "__main__" in text and not is_vendored(text)
            if starts and path.stat().st_size <= MOST_BYTES:
                yield path.relative_to(folder)
