"""The files of a script as lint reads them: bounded in number, shared by the scripts of one run."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from ddpify.source import Source, source_unchecked
from ddpify.understanding.parsed import Parsed
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.searching import real_path

# Bytes of source whose trees are kept: a tree takes some fifty times as much memory.
_MOST_BYTES = 1_000_000
Held = TypeVar("Held")
_Stamp = tuple[int, int]  # time of the last change, size


class Recent(Generic[Held]):
    """What is known of the files that were used last, up to so many bytes of source."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._held: OrderedDict[object, tuple[Held, int]] = OrderedDict()

    def get(self, key: object) -> Held | None:
        """What is known, and used now."""
        known = self._held.get(key)
        if known is None:
            return None
        self._held.move_to_end(key)
        return known[0]

    def put(self, key: object, made: Held, size: int) -> None:
        """Hold this, and not what was used least recently where that is too much."""
        _, before = self._held.pop(key, (None, 0))
        self._held[key] = made, size
        self._size += size - before
        while self._size > self._most and len(self._held) > 1:
            _, (_, dropped) = self._held.popitem(last=False)
            self._size -= dropped


_SOURCES: Recent[tuple[_Stamp, Source]] = Recent(_MOST_BYTES)
_TREES: Recent[Parsed] = Recent(_MOST_BYTES)


def _read(path: str) -> Source:
    """A file that scripts import; the text read before if it has not changed.

    Raises:
        DdpifyError: It cannot be read as text.
    """
    try:
        state = os.stat(path)
    except OSError:
        return source_unchecked(path)
    stamp = (state.st_mtime_ns, state.st_size)
    known = _SOURCES.get(path)
    if known is None or known[0] != stamp:
        known = stamp, source_unchecked(path)
        _SOURCES.put(path, known, state.st_size)
    return replace(known[1])  # a source holds its tree, which is to go with the script


def _parsed(source: Source) -> Parsed:
    """A file's tree; the same one as before if its text has not changed.

    Raises:
        DdpifyError: LibCST cannot parse it.
    """
    key = os.path.abspath(source.path), source.data
    known = _TREES.get(key)
    if known is None:
        known = Parsed(source.tree, source.text)
        _TREES.put(key, known, len(source.data))
    return known


class BoundedProject(Project):
    """A project of which only so many files are read: what is beyond them is as a library."""

    def __init__(self, entry: Source, folder: Path, most: int) -> None:
        super().__init__(entry, folder=folder)
        self._most = most

    def _load(self, path: Path) -> Source:
        return _read(os.fspath(path))

    def _parse(self, source: Source) -> Parsed:
        return _parsed(source)

    def _read(self, path: str, name: str) -> ModuleFile | None:
        if len(self._files) >= self._most and real_path(path) not in self._files:
            return None
        return super()._read(path, name)
