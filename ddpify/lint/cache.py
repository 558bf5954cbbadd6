"""Remembers the findings of unchanged files, by what they contain."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from functools import cached_property
from pathlib import Path

from ddpify import __version__
from ddpify.lint.config import Settings, digest
from ddpify.lint.engine import Result
from ddpify.lint.files.document import Document

FOLDER = ".ddpify_cache"
_PACKAGE = Path(__file__).parents[1]


class Cache:
    """Results under a key of the file's bytes, its path, the settings and ddpify itself.

    A result also depends on the local files that the script imports: their hashes are stored
    with it and compared.
    """

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        self.folder = folder or settings.root / FOLDER
        self._settings = digest(settings)
        self._hashes: dict[str, str | None] = {}  # of what results depend on, which many share

    def _hash_of(self, path: str) -> str | None:
        """The hash of a file, which a run reads once for all results that depend on it."""
        if path not in self._hashes:
            self._hashes[path] = hash_of(path)
        return self._hashes[path]

    @cached_property
    def _stem(self) -> bytes:
        parts = (__version__, digest_of(_PACKAGE), self._settings, str(sys.version_info[:2]))
        return "\n".join(parts).encode()

    def _file(self, document: Document) -> Path:
        key = hashlib.blake2b(self._stem, digest_size=20)
        key.update(os.path.abspath(document.path).encode("utf-8", "surrogateescape"))
        key.update(document.path.encode("utf-8", "surrogateescape"))
        key.update(str(document.project).encode("utf-8", "surrogateescape"))
        key.update(document.data)
        return self.folder / key.hexdigest()

    def get(self, document: Document) -> Result | None:
        """The stored result, if nothing that it depends on has changed."""
        try:
            result, needs = pickle.loads(self._file(document).read_bytes())
        except Exception:  # absent, or from another time: as good as absent
            return None
        fresh = all(self._hash_of(path) == known for path, known in needs)
        return result if fresh and isinstance(result, Result) else None

    def put(self, document: Document, result: Result) -> None:
        """Store a result; a folder that cannot be written to is no error."""
        if result.failure is not None:
            return
        needs = [(path, self._hash_of(path)) for path in result.read.needs]
        target = self._file(document)
        aside = target.with_name(f"{target.name}.{os.getpid()}")
        try:
            if not self.folder.exists():
                self.folder.mkdir(parents=True)
                (self.folder / ".gitignore").write_text("*\n")
            aside.write_bytes(pickle.dumps((result, needs)))
            os.replace(aside, target)
        except OSError:
            aside.unlink(missing_ok=True)


def hash_of(path: str) -> str | None:
    """The hash of a file's bytes; None where there is no such file."""
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=20).hexdigest()
    except OSError:
        return None


def digest_of(package: Path) -> str:
    """Changes with a package's code, so that a development version never serves old findings."""
    stamps = []
    for folder, inner, names in os.walk(package):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted(name for name in names if name.endswith(".py")):
            state = os.stat(os.path.join(folder, name))
            stamps.append(f"{name}{state.st_mtime_ns}{state.st_size}")
    return hashlib.blake2b("".join(stamps).encode(), digest_size=8).hexdigest()
