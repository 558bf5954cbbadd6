"""What is copied for a run: the script's folder, and what it reaches through ``..``."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_ENTRIES = 2000
MAX_BESIDE = 20
LEVELS_ABOVE = 3
_SKIPPED = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "env",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".tox",
        ".ipynb_checkpoints",
        "site-packages",
    ]
)
_TEXT = frozenset({".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".sh", ".txt"})
_ABOVE = re.compile(r"((?:\.\./)+)([\w.\-]*)")
_ABOVE_BARE = re.compile(r"""['"](?:\.\./)*\.\.(?:/?['"]|/[{%])""")
_ABOVE_FILE = re.compile(r"(?:\.parent\b){2,}|(?:dirname\([\w.]*?){2,}|parents\[\d\]")
_FAR_ABOVE = re.compile(r"""['"]((?:\.\./)+\.\.)/?['"]""")


@dataclass(frozen=True)
class Layout:
    """What is copied.

    Attributes:
        root: The user's folder.
        cwd: The working folder of every run, relative to ``root``.
        script: The original script, relative to ``root``.
        converted: The converted script's place relative to ``root``.
        converted_from: Where the converted script is read from.
        above: Existing paths outside ``root`` that the script seems to use, relative to ``root``.
    """

    root: Path
    cwd: Path
    script: Path
    converted: Path
    converted_from: Path
    above: tuple[Path, ...]

    @property
    def counterpart(self) -> tuple[Path, Path]:
        """The folder that the converted script and its modules come from, and the same folder of
        the original, relative to ``root``: the project's, or, of a script alone, the script's."""
        folders, parents = self.script.parent.parts, self.converted_from.parents
        if parents[0].parts[-len(folders) :] == folders:
            return parents[len(folders)], Path()
        return parents[0], self.script.parent

    @property
    def protected(self) -> tuple[str, ...]:
        """Folders that no run may write to."""
        above = {Path(os.path.normpath(self.root / path)) for path in self.above}
        return tuple(map(str, sorted({self.root, self.converted_from.parent, *above})))


def lay_out(
    original: Path,
    converted: Path,
    script_args: Sequence[str],
    cwd: Path | None = None,
    python_path: Sequence[Path] = (),
) -> Layout:
    """Decide what to copy for running ``original`` and ``converted`` (both existing files).

    The working folder stays the current one if the script lies below it and it is of moderate size;
    else it is the script's own folder. All of the project that holds it is copied, if Python's path
    names that.
    """
    original, converted = original.resolve(), converted.resolve()
    here = (cwd or Path.cwd()).resolve()
    work = here if here in original.parents and _is_project(here) else original.parent
    named = {_in_original(path, original, converted) for path in python_path}
    around = [path for path in named if path in work.parents and _is_project(path)]
    root = min(around, key=lambda path: len(path.parts), default=work)
    script = original.relative_to(root)
    if root in converted.parents:
        place = converted.relative_to(root)
    else:
        place = script.parent / converted.name
    above = tuple(_above(root, script, script_args))
    return Layout(root, work.relative_to(root), script, place, converted, above)


def _in_original(folder: Path, original: Path, converted: Path) -> Path:
    """``folder``; if the converted script lies in it as the original does in another, that one."""
    if folder in converted.parents and folder not in original.parents:
        below = converted.parent.relative_to(folder).parts
        if original.parent.parts[-len(below) :] == below:
            return original.parents[len(below)]
    return folder


def _is_project(folder: Path) -> bool:
    """Whether ``folder`` may be copied as a whole."""
    return folder not in (Path.home(), Path(folder.anchor)) and is_moderate(folder)


def is_moderate(folder: Path) -> bool:
    """Whether ``folder`` has so few files that they may be looked through."""
    return sum(1 for _ in zip(files(folder), range(MAX_ENTRIES + 1), strict=False)) <= MAX_ENTRIES


def files(folder: Path) -> Iterator[Path]:
    """The files below ``folder``, but not those of environments, caches and version control."""
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_skipped(Path(base, name))]
        yield from (Path(base, name) for name in names)


def is_skipped(folder: Path) -> bool:
    """Whether ``folder`` holds an environment, a cache or version control."""
    return folder.name in _SKIPPED or (folder / "pyvenv.cfg").exists()


def _above(root: Path, script: Path, args: Sequence[str]) -> Iterator[Path]:
    """Paths like ``../data`` named in the sources, in small text files or in the arguments."""
    texts = [(root, argument) for argument in args]
    bases = {root, root / script.parent}
    found: set[Path] = set()
    for folder, text in [*texts, *_texts(root)]:
        near = folder in bases  # where ".." is taken from, be it the working folder or the script's
        bare = near and _ABOVE_BARE.search(text)
        if bare or _levels(text) > len(folder.relative_to(root).parts):
            found.update(_parents_entries(root))
        for dots in _FAR_ABOVE.findall(text) if near else ():
            found.update(_named_entries(root, dots.count(".."), text))
        for dots, name in _ABOVE.findall(text):
            found.update(Path(os.path.normpath(base / dots / name)) for base in bases if name)
    for path in sorted(found):
        if path.exists() and root != path and root not in path.parents and path not in root.parents:
            yield Path(os.path.relpath(path, root))


def _levels(text: str) -> int:
    """How many folders above its own a module goes at most, from its ``__file__``."""
    chains = _ABOVE_FILE.findall(text)
    return max((_steps_up(chain) for chain in chains), default=0)


def _steps_up(chain: str) -> int:
    if chain.startswith("parents"):
        return int(chain[len("parents[") : -1])
    return chain.count(".parent") + chain.count("dirname") - 1


def _texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Small text files, each with its folder."""
    for count, path in enumerate(files(root)):
        if count > MAX_ENTRIES:
            return
        if path.suffix in _TEXT and path.is_file() and path.stat().st_size < 200_000:
            yield path.parent, path.read_text(encoding="utf-8", errors="replace")


def _parents_entries(root: Path) -> list[Path]:
    """What lies beside ``root``, if that is one project: modules, folders of moderate size."""
    parent = root.parent
    if parent in (Path.home(), Path(tempfile.gettempdir()).resolve(), Path(root.anchor)):
        return []
    entries = [path for path in sorted(parent.iterdir()) if path != root]
    folders = [path for path in entries if path.is_dir() and not is_skipped(path)]
    if len(folders) > MAX_BESIDE:
        folders = []
    modules = [path for path in entries if path.suffix == ".py" and path.is_file()]
    return modules + [path for path in folders if is_moderate(path)]


def _named_entries(root: Path, levels: int, text: str) -> list[Path]:
    """Entries of the folder ``levels`` above ``root`` that ``text`` names."""
    if levels > min(LEVELS_ABOVE, len(root.parents)):
        return []
    above = root.parents[levels - 1]
    return [path for path in above.iterdir() if path not in root.parents and path.name in text]
