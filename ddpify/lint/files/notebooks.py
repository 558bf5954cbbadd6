"""Notebooks as one script of their code cells, and what was changed in it as a notebook again."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from ddpify.errors import DdpifyError
from ddpify.lint.diagnostics import Diagnostic, Span
from ddpify.records import record

_FUTURE = re.compile(r"^from __future__ import .*$")  # later cells may have it too
_MAGIC = re.compile(r"^\s*([%!?].*|[\w.]+\?{1,2}\s*|[\w.]+(?:\s*,\s*[\w.]+)*\s*=\s*[%!].*)$")
_SCRIPT_CELLS = ("%%time", "%%capture")  # cell magics that leave the cell Python
# What is no Python stands behind these, so that it is found again.
_HEAD = "# cell of the notebook: "
INSTEAD = "pass  # line of the notebook: "
# Indentation and separators, as Jupyter, Colab, Kaggle and editors write them.
_SPACES: tuple[tuple[int | str | None, tuple[str, str] | None], ...] = (
    (1, None),
    (2, None),
    (4, None),
    (None, (",", ":")),
    (None, None),
    (3, None),
    ("\t", None),
)


@record
class Cells:
    """Where the cells of a notebook start in the script that they make together."""

    starts: tuple[int, ...]  # 1-based first line of each code cell
    numbers: tuple[int, ...]  # its 1-based place among all cells

    def locate(self, span: Span) -> tuple[int, Span]:
        """The cell that a span of the joined script is in, and the span inside it.

        What is said of the script as a whole stands at the first line of the first cell.
        """
        line, end = max(span.line, self.starts[0]), max(span.end_line, self.starts[0])
        index = max(i for i, start in enumerate(self.starts) if start <= line)
        shift = self.starts[index] - 1
        moved = Span(line - shift, span.column, end - shift, span.end_column)
        return self.numbers[index], moved


def join(data: bytes) -> tuple[str, Cells]:
    """One script of a notebook's code cells; magic lines become statements that do nothing.

    Raises:
        ValueError: This is not a notebook.
    """
    lines: list[str] = []
    starts, numbers = [], []
    for number, text in texts(data).items():
        lines.append(f"{_HEAD}{number}")
        starts.append(len(lines) + 1)
        numbers.append(number)
        lines += _as_python(text, first=len(starts) == 1)
    return "\n".join(lines) + "\n", Cells(tuple(starts or [1]), tuple(numbers or [1]))


def split(script: str) -> dict[int, str]:
    """The texts of the code cells that a joined script was made of, as it stands now."""
    found: dict[int, list[str]] = {}
    for line in script.removesuffix("\n").split("\n"):
        if line.startswith(_HEAD):
            found[int(line.removeprefix(_HEAD))] = lines = []
        elif found:
            lines.append(_as_written(line))
    return {number: "\n".join(lines) for number, lines in found.items()}


def texts(data: bytes) -> dict[int, str]:
    """The code cells of a notebook, by their 1-based places among all cells.

    Raises:
        ValueError: This is not a notebook.
    """
    return {
        number: text if isinstance(text := cell.get("source", ""), str) else "".join(text)
        for number, cell in enumerate(_parsed(data)["cells"], 1)
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
    }


def with_script(data: bytes, script: str) -> bytes:
    """The notebook with the cells of a joined script, and all else as it is, to the byte.

    Raises:
        DdpifyError: It would not come out as it was written.
    """
    if split(join(data)[0]) != texts(data) or (layout := _layout(data)) is None:
        raise DdpifyError(
            "the notebook is laid out in a way that would not survive a change",
            remedy="save it in Jupyter once, then fix it",
        )
    notebook = _parsed(data)
    before = texts(data)
    for number, text in split(script).items():
        if text != before[number]:
            cell = notebook["cells"][number - 1]
            whole = isinstance(cell.get("source", ""), str)
            cell["source"] = text if whole else text.splitlines(keepends=True)
    return layout.write(notebook)


def _parsed(data: bytes) -> dict[str, Any]:
    notebook = json.loads(data)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("not a notebook: it has no list of cells")
    return notebook


@record
class _Layout:
    """How a notebook's JSON is written."""

    indent: int | str | None
    separators: tuple[str, str] | None
    escaped: bool
    newline: str
    end: str

    def write(self, notebook: dict[str, Any]) -> bytes:
        text = json.dumps(
            notebook, indent=self.indent, separators=self.separators, ensure_ascii=self.escaped
        )
        whole = text.replace("\n", self.newline) + self.end
        return whole.encode("utf-8", "surrogatepass")


def _layout(data: bytes) -> _Layout | None:
    """The layout in which the notebook's JSON gives back its own bytes."""
    notebook = _parsed(data)
    end = data[len(data.rstrip()) :].decode()
    newline = "\r\n" if b"\r\n" in data else "\n"
    for (indent, separators), escaped in product(_SPACES, (False, True)):
        layout = _Layout(indent, separators, escaped, newline, end)
        if layout.write(notebook) == data:
            return layout
    return None


def _as_python(text: str, *, first: bool) -> list[str]:
    """The lines of a cell as Python: a cell magic makes all of it another language."""
    lines = text.split("\n")
    if not _is_python(text):  # a line that starts with % may go on with the one before
        if lines[0].startswith("%%") and not lines[0].startswith(_SCRIPT_CELLS):
            return [INSTEAD + line for line in lines]
        lines = list(_without_magics(lines))
    return lines if first else [_instead(ln) if _FUTURE.match(ln) else ln for ln in lines]


def _without_magics(lines: list[str]) -> Iterator[str]:
    """The lines with a statement for each of a magic, which a backslash takes to the next line."""
    indent: str | None = None  # of the magic that goes on here
    for line in lines:
        if indent is None and not _MAGIC.match(line):
            yield line
            continue
        if indent is None:
            indent = line[: len(line) - len(line.lstrip())]
        yield indent + INSTEAD + line.removeprefix(indent)
        indent = indent if line.endswith("\\") else None


def _instead(line: str) -> str:
    code = line.lstrip()
    return line[: len(line) - len(code)] + INSTEAD + code


def _as_written(line: str) -> str:
    indent, instead, code = line.partition(INSTEAD)
    return indent + code if instead and not indent.strip() else line


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<cell>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def in_cell(found: Diagnostic, cells: Cells) -> Diagnostic:
    """A finding in a notebook; the edits of its fix are those of the joined script."""
    cell, span = cells.locate(found.span)
    return replace(found, cell=cell, span=span)
