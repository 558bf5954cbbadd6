"""The files of a script as lint reads them: bounded in number, shared by the scripts of one run."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from ddpify.source import Source, source_unchecked
from ddpify.understanding.parsed import Parsed
from ddpify.understanding.project import ModuleFile, Project

# Bytes of source whose trees are kept: a tree takes some fifty times as much memory.
_MOST_BYTES = 1_000_000


class RecentFiles:
    """Trees of the files that were read last, by place and content."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._held: OrderedDict[tuple[str, bytes], Parsed] = OrderedDict()

    def parsed(self, source: Source) -> Parsed:
        """The file's tree; the same one as before if nothing has changed.

        Raises:
            DdpifyError: LibCST cannot parse it.
        """
        key = (str(Path(source.path).resolve()), source.data)
        known = self._held.get(key)
        if known is None:
            known = self._held[key] = Parsed(source.tree, source.text)
            self._size += len(source.data)
        self._held.move_to_end(key)
        while self._size > self._most and len(self._held) > 1:
            (_, data), _ = self._held.popitem(last=False)
            self._size -= len(data)
        return known


_RECENT = RecentFiles(_MOST_BYTES)


class BoundedProject(Project):
    """A project of which only so many files are read: what is beyond them is as a library."""

    def __init__(self, entry: Source, folder: Path, most: int) -> None:
        super().__init__(entry, folder=folder)
        self._most = most

    def _load(self, path: Path) -> Source:
        return source_unchecked(path)

    def _parse(self, source: Source) -> Parsed:
        return _RECENT.parsed(source)

    def _read(self, path: Path, name: str) -> ModuleFile | None:
        if path.resolve() not in self._files and len(self._files) >= self._most:
            return None
        return super()._read(path, name)
