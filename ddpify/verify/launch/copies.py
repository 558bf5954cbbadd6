"""Copies of the user's folder to run in, so that nothing of the user's changes.

Small files are copied, large ones linked (a run that writes to a link gets a real copy first, see
``guard``). Folders that the script reaches through ``..`` are brought along at the same relative
place.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COPIED_FILE = 1 << 20
COPIED_TOTAL = 200 << 20
MAX_ENTRIES = 2000
MIRRORED_ENTRIES = 20_000
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
_ABOVE_BARE = re.compile(r"""['"]\.\.['"/]|\.parent\.parent|dirname\([^)]*dirname|parents\[1\]""")
_FAR_ABOVE = re.compile(r"""['"]((?:\.\./)+\.\.)/?['"]""")


@dataclass(frozen=True)
class Layout:
    """What is copied.

    Attributes:
        root: The user's folder; also the working folder of every run.
        script: The original script, relative to ``root``.
        converted: The converted script's place relative to ``root``.
        converted_from: Where the converted script is read from.
        above: Existing paths outside ``root`` that the script seems to use, relative to ``root``.
    """

    root: Path
    script: Path
    converted: Path
    converted_from: Path
    above: tuple[Path, ...]

    @property
    def protected(self) -> tuple[str, ...]:
        """Folders that no run may write to."""
        above = {Path(os.path.normpath(self.root / path)) for path in self.above}
        return tuple(map(str, sorted({self.root, self.converted_from.parent, *above})))


def lay_out(
    original: Path, converted: Path, script_args: Sequence[str], cwd: Path | None = None
) -> Layout:
    """Decide what to copy for running ``original`` and ``converted`` (both existing files).

    The working folder stays the current one if the script lies below it and it is of moderate size;
    else it is the script's own folder.
    """
    original, converted = original.resolve(), converted.resolve()
    here = (cwd or Path.cwd()).resolve()
    fits = here in original.parents and here not in (Path.home(), Path(here.anchor))
    root = here if fits and _is_moderate(here) else original.parent
    script = original.relative_to(root)
    if root in converted.parents:
        place = converted.relative_to(root)
    else:
        place = script.parent / converted.name
    return Layout(root, script, place, converted, tuple(_above(root, script, script_args)))


def _is_moderate(folder: Path) -> bool:
    return sum(1 for _ in zip(_files(folder), range(MAX_ENTRIES + 1), strict=False)) <= MAX_ENTRIES


def _files(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_skipped(Path(base, name))]
        yield from (Path(base, name) for name in names)


def _is_skipped(folder: Path) -> bool:
    return folder.name in _SKIPPED or (folder / "pyvenv.cfg").exists()


def _above(root: Path, script: Path, args: Sequence[str]) -> Iterator[Path]:
    """Paths like ``../data`` named in the sources, in small text files or in the arguments."""
    texts = [*args, *_texts(root)]
    bases = {root, root / script.parent}
    found: set[Path] = set()
    for text in texts:
        if _ABOVE_BARE.search(text):
            found.update(_parents_entries(root))
        for dots in _FAR_ABOVE.findall(text):
            found.update(_named_entries(root, dots.count(".."), text))
        for dots, name in _ABOVE.findall(text):
            found.update(Path(os.path.normpath(base / dots / name)) for base in bases if name)
    for path in sorted(found):
        if path.exists() and root != path and root not in path.parents and path not in root.parents:
            yield Path(os.path.relpath(path, root))


def _texts(root: Path) -> Iterator[str]:
    for count, path in enumerate(_files(root)):
        if count > MAX_ENTRIES:
            return
        if path.suffix in _TEXT and path.is_file() and path.stat().st_size < 200_000:
            yield path.read_text(encoding="utf-8", errors="replace")


def _parents_entries(root: Path) -> list[Path]:
    """What lies beside ``root``, if that is one project: modules, folders of moderate size."""
    parent = root.parent
    if parent in (Path.home(), Path(tempfile.gettempdir()).resolve(), Path(root.anchor)):
        return []
    entries = [path for path in sorted(parent.iterdir()) if path != root]
    folders = [path for path in entries if path.is_dir() and not _is_skipped(path)]
    if len(folders) > MAX_BESIDE:
        folders = []
    modules = [path for path in entries if path.suffix == ".py" and path.is_file()]
    return modules + [path for path in folders if _is_moderate(path)]


def _named_entries(root: Path, levels: int, text: str) -> list[Path]:
    """Entries of the folder ``levels`` above ``root`` that ``text`` names."""
    if levels > min(LEVELS_ABOVE, len(root.parents)):
        return []
    above = root.parents[levels - 1]
    return [path for path in above.iterdir() if path not in root.parents and path.name in text]


@dataclass(frozen=True)
class Copy:
    """One copy: ``sandbox`` holds ``root`` (the copy of the layout's root) some levels down."""

    sandbox: Path
    root: Path

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of each file below the sandbox, by its path relative to it."""
        return {
            str(path.relative_to(self.sandbox)): (stat.st_size, stat.st_mtime_ns)
            for path in _files(self.sandbox)
            if (stat := path.lstat())
        }


def copy(layout: Layout, sandbox: Path, *, converted: bool = False) -> Copy:
    """Make a copy below ``sandbox``, a folder that does not exist yet.

    With ``converted``, the converted script and the modules that came with it are laid over it.
    """
    sandbox = sandbox.parent.resolve() / sandbox.name
    names = [parent.name or "up" for parent in list(layout.root.parents)[:LEVELS_ABOVE]]
    root = sandbox.joinpath(*reversed(names), layout.root.name)
    mirror = _Mirror(sandbox.parent)
    mirror.bring(layout.root, root)
    for above in layout.above:
        target = Path(os.path.normpath(root / above))
        if sandbox in target.parents and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            mirror.bring(Path(os.path.normpath(layout.root / above)), target)
    if converted and layout.root / layout.converted != layout.converted_from:
        _lay_over(layout, root)
    return Copy(sandbox, root)


def _lay_over(layout: Layout, root: Path) -> None:
    """Put the converted script into ``root``, with the modules of its folder, which is a converted
    project or holds the script alone."""
    folders = layout.converted.parent.parts
    below = layout.converted_from.parent.parts[-len(folders) :] == folders
    source = layout.converted_from.parents[len(folders) if below else 0]
    target = root if below else root / layout.converted.parent
    modules = source.rglob("*.py") if _is_moderate(source) else source.glob("*.py")
    for module in modules:
        place = target / module.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        shutil.copyfile(module, place)


class _Mirror:
    """Copies folders, the shallow entries first, within a budget; what is beyond it is linked.

    Args:
        avoid: A folder that is never copied: the one that the copies are made in.
    """

    def __init__(self, avoid: Path) -> None:
        self.avoid = avoid
        self.bytes = COPIED_TOTAL
        self.entries = MIRRORED_ENTRIES

    def bring(self, source: Path, target: Path) -> None:
        """Make ``target`` look like ``source``."""
        waiting = deque([(source, target)])
        while waiting:
            here, there = waiting.popleft()
            if here.is_dir() and not here.is_symlink():
                waiting.extend(self._folder(here, there))
            else:
                self._file(here, there)

    def _folder(self, source: Path, target: Path) -> list[tuple[Path, Path]]:
        if source == self.avoid:
            return []
        entries = sorted(source.iterdir())
        self.entries -= len(entries)
        if (len(entries) > MAX_ENTRIES or self.entries < 0) and source not in self.avoid.parents:
            target.symlink_to(source)
            return []
        target.mkdir(parents=True, exist_ok=True)
        kept = (entry for entry in entries if not (entry.is_dir() and _is_skipped(entry)))
        return [(entry, target / entry.name) for entry in kept]

    def _file(self, source: Path, target: Path) -> None:
        real = source.resolve()
        if not real.exists() or not (real.is_file() or real.is_dir()):
            return
        size = real.stat().st_size
        if source.is_symlink() or size > min(COPIED_FILE, self.bytes):
            target.symlink_to(real)
            return
        self.bytes -= size
        shutil.copy2(source, target)
        target.chmod(target.stat().st_mode | 0o600)
