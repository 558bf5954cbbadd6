"""Copies of the user's folder to run in, so that nothing of the user's changes.

Small files are copied, large ones linked (a run that writes to a link gets a real copy first, see
``guard``). Folders that the script reaches through ``..`` are brought along at the same relative
place.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from ddpify.verify.launch.layout import (
    LEVELS_ABOVE,
    MAX_ENTRIES,
    Layout,
    files,
    is_moderate,
    is_skipped,
)

COPIED_FILE = 1 << 20
COPIED_TOTAL = 200 << 20
MIRRORED_ENTRIES = 20_000


@dataclass(frozen=True)
class Copy:
    """One copy: ``sandbox`` holds ``root`` (the copy of the layout's root) some levels down, and
    that ``cwd``, the working folder."""

    sandbox: Path
    root: Path
    cwd: Path

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of each file below the sandbox, by its path relative to
        ``cwd``."""
        return {
            os.path.relpath(path, self.cwd): (stat.st_size, stat.st_mtime_ns)
            for path in files(self.sandbox)
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
    return Copy(sandbox, root, root / layout.cwd)


def _lay_over(layout: Layout, root: Path) -> None:
    """Put the converted script into ``root``, with the modules of its folder, which is a converted
    project or holds the script alone."""
    source, place = layout.counterpart
    target = root / place
    modules = source.rglob("*.py") if is_moderate(source) else source.glob("*.py")
    for module in modules:
        laid = target / module.relative_to(source)
        laid.parent.mkdir(parents=True, exist_ok=True)
        laid.unlink(missing_ok=True)
        shutil.copyfile(module, laid)


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
        kept = (entry for entry in entries if not (entry.is_dir() and is_skipped(entry)))
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
