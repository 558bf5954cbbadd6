"""A file to lint: a Python script, the code cells of a notebook, or a launch file."""

from __future__ import annotations

import os
from pathlib import Path

from ddpify.errors import DdpifyError
from ddpify.lint.files import notebooks
from ddpify.records import record
from ddpify.source import source_from_bytes
from ddpify.understanding.searching import repository
from ddpify.understanding.text_imports import highest_imported

PYTHON, NOTEBOOK, LAUNCH = "python", "notebook", "launch"
_LAUNCH_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".mk")
_LAUNCH_NAMES = ("Makefile", "makefile", "GNUmakefile")


@record
class Document:
    """The bytes of a file and what they are; ``folder`` is the one in which it was found."""

    path: str
    data: bytes
    kind: str = PYTHON
    folder: Path | None = None

    @property
    def project(self) -> Path:
        """The project that it belongs to: its repository, or the folder that it is run from."""
        path = Path(os.path.abspath(self.path))
        return repository(path) or self._run_from(path)

    def _run_from(self, path: Path) -> Path:
        """The highest folder that was named, or below the working one has what it imports."""
        text = self.data.decode("utf-8", "replace")
        reached = highest_imported(text, path, Path.cwd()) if self.kind == PYTHON else None
        known = [one for one in (path.parent, self.folder, reached) if one is not None]
        return min(known, key=lambda one: len(one.parts))

    def texts(self) -> dict[int | None, str]:
        """Its text, or those of a notebook's code cells by their 1-based places."""
        if self.kind != NOTEBOOK:
            return {None: decoded(self.data)[0]}
        try:
            return dict(notebooks.texts(self.data).items())
        except ValueError:
            return {}  # what is found is that it cannot be read


def kind_of(path: Path) -> str | None:
    """What a file is, by its name; None for what is not linted."""
    if path.suffix in (".py", ".pyi", ".pyw"):
        return PYTHON
    if path.suffix == ".ipynb":
        return NOTEBOOK
    if path.suffix in _LAUNCH_SUFFIXES or path.name in _LAUNCH_NAMES:
        return LAUNCH
    return None


def decoded(data: bytes) -> tuple[str, str]:
    """Text and encoding of a file; the text may be approximate where it is not valid."""
    try:
        source = source_from_bytes(data, "")
        return source.text, source.encoding
    except DdpifyError:
        return data.decode("utf-8", "replace"), "utf-8"
