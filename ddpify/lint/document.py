"""A file to lint: a Python script, the code cells of a notebook, or a launch file."""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path

from ddpify.lint.diagnostics import Span
from ddpify.records import record
from ddpify.source import Source, source_from_bytes
from ddpify.understanding.searching import repository

PYTHON, NOTEBOOK, LAUNCH = "python", "notebook", "launch"
_LAUNCH_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".mk")
_LAUNCH_NAMES = ("Makefile", "makefile", "GNUmakefile")
_FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)  # later cells may have it too
_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?{1,2}\s*)$")


@record
class Document:
    """The bytes of a file and what they are; ``folder`` is the one in which it was found."""

    path: str
    data: bytes
    kind: str = PYTHON
    folder: Path | None = None

    @property
    def project(self) -> Path:
        """The project that it belongs to: its repository, the folder that was named, or its own."""
        path = Path(os.path.abspath(self.path))
        return repository(path) or self.folder or path.parent


@record
class Cells:
    """Where the cells of a notebook start in the script that they make together."""

    starts: tuple[int, ...]  # 1-based first line of each code cell
    numbers: tuple[int, ...]  # its 1-based place among all cells

    def locate(self, span: Span) -> tuple[int, Span]:
        """The cell that a span of the joined script is in, and the span inside it."""
        index = max(i for i, start in enumerate(self.starts) if start <= span.line)
        shift = self.starts[index] - 1
        moved = Span(span.line - shift, span.column, span.end_line - shift, span.end_column)
        return self.numbers[index], moved


def kind_of(path: Path) -> str | None:
    """What a file is, by its name; None for what is not linted."""
    if path.suffix in (".py", ".pyi", ".pyw"):
        return PYTHON
    if path.suffix == ".ipynb":
        return NOTEBOOK
    if path.suffix in _LAUNCH_SUFFIXES or path.name in _LAUNCH_NAMES:
        return LAUNCH
    return None


def python_source(document: Document) -> tuple[Source, Cells | None]:
    """The Python of a document.

    Raises:
        DdpifyError: It cannot be read as Python.
    """
    if document.kind != NOTEBOOK:
        return source_from_bytes(document.data, document.path), None
    text, cells = join_cells(document.data)
    return source_from_bytes(text.encode(), document.path), cells


def join_cells(data: bytes) -> tuple[str, Cells]:
    """One script of a notebook's code cells; magic lines become ``pass`` or comments.

    Raises:
        ValueError: This is not a notebook.
    """
    notebook = json.loads(data)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("not a notebook: it has no list of cells")
    lines: list[str] = []
    starts, numbers = [], []
    for number, cell in enumerate(notebook["cells"], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        starts.append(len(lines) + 1)
        numbers.append(number)
        lines += _without_magic(text if not lines else _FUTURE.sub("pass", text))
    return "\n".join(lines) + "\n", Cells(tuple(starts or [1]), tuple(numbers or [1]))


def _without_magic(text: str) -> list[str]:
    """The lines of a cell as Python: a cell magic makes all of it another language."""
    lines = text.split("\n")
    if _is_python(text):
        return lines  # a line that starts with % may go on with the one before
    if lines[0].startswith("%%") and not lines[0].startswith(("%%time", "%%capture")):
        return ["# " + line for line in lines]
    return [_MAGIC.sub(r"\1pass", line) for line in lines]


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<cell>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
