"""Notebooks: their cells as one script, and fixes that leave all else as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from ddpify.lint.diagnostics import Span
from ddpify.lint.files import notebooks
from ddpify.source import read_source
from tests.conftest import Ddpify
from tests.lint.setups import SETUPS

HEAD = "%matplotlib inline\n" + SETUPS["distributed"]
SAVE = "torch.save(net.state_dict(), 'netz_größe.pt')"
MENDED = f"if dist.get_rank() == 0:\n    {SAVE}"
CONTINUED = (
    "!pip install torch \\\n    numpy \\\n  pandas\nfiles = !ls\nif files:\n    %cd x \\\n      y\n"
)
SHELL = "%%bash\n  ls -l\n!odd"


def cell(source: str | list[str], kind: str = "code") -> dict[str, object]:
    return {"cell_type": kind, "metadata": {"scrolled": True}, "source": source}


def written(cells: list[dict[str, object]], indent: int | None, *, escaped: bool) -> str:
    notebook = {"cells": cells, "metadata": {"a": 1.50}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=indent, ensure_ascii=escaped) + "\n"


def cells_of(head: str, save: str) -> list[dict[str, object]]:
    return [
        cell(["# Größe\n", "text"], "markdown"),
        cell(head.splitlines(keepends=True)),
        cell("from __future__ import annotations\n!pip list\nx = 1"),
        cell(save),
        cell(CONTINUED),
        cell(SHELL),
        cell([]),
    ]


def compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


def with_windows_lines(text: str) -> str:
    return text.replace("\n", "\r\n")


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("laid_out", [str, compact, with_windows_lines])
def test_a_fix_changes_its_line_and_no_other_byte(
    tmp_path: Path,
    ddpify: Ddpify,
    indent: int | None,
    escaped: bool,
    laid_out: Callable[[str], str],
) -> None:
    path = tmp_path / "train.ipynb"
    before = laid_out(written(cells_of(HEAD, SAVE), indent, escaped=escaped))
    path.write_bytes(before.encode())
    done = ddpify("lint", path, "--select", "DDP501", "--fix")
    assert done.code == 0, done.stdout + done.stderr
    expected = laid_out(written(cells_of(HEAD, MENDED), indent, escaped=escaped))
    assert path.read_bytes() == expected.encode()


def test_the_diff_names_the_cell(tmp_path: Path, ddpify: Ddpify) -> None:
    path = tmp_path / "train.ipynb"
    before = written(cells_of(HEAD, SAVE), 1, escaped=False)
    path.write_text(before, "utf-8")
    done = ddpify("lint", path, "--select", "DDP501", "--diff")
    assert f"+++ {path}:cell 4\n@@ -1 +1,2 @@\n-{SAVE}\n+if dist.get_rank() == 0:" in done.stdout
    assert path.read_text("utf-8") == before


def test_a_layout_that_would_be_lost_is_left_alone(tmp_path: Path, ddpify: Ddpify) -> None:
    path = tmp_path / "train.ipynb"
    before = written(cells_of(HEAD, SAVE), 1, escaped=False).replace('"nbformat": ', '"nbformat":')
    path.write_text(before, "utf-8")
    done = ddpify("lint", path, "--select", "DDP501", "--fix")
    assert done.code == 1 and "not fixed" in done.stderr and "Jupyter" in done.stderr
    assert path.read_text("utf-8") == before


def test_cells_come_back_as_they_were() -> None:
    data = written(cells_of(HEAD, SAVE), 1, escaped=False).encode()
    script, cells = notebooks.join(data)
    compile(script, "script", "exec")
    assert notebooks.split(script) == notebooks.texts(data)
    assert cells.numbers == (2, 3, 4, 5, 6, 7)
    assert notebooks.with_script(data, script) == data


def test_what_is_said_of_all_of_it_stands_at_the_first_cell() -> None:
    cells = notebooks.Cells(starts=(2, 5), numbers=(3, 4))
    assert cells.locate(Span(1, 1, 1, 2)) == (3, Span(1, 1, 1, 2))
    assert cells.locate(Span(6, 1, 6, 2)) == (4, Span(2, 1, 2, 2))


def test_a_line_that_looks_like_a_place_keeper_is_not_taken_for_one() -> None:
    script = "pass  # line of the notebook: x"
    data = written([cell(script)], 1, escaped=False).encode()
    with pytest.raises(DdpifyError, match="laid out"):
        notebooks.with_script(data, notebooks.join(data)[0])


def test_what_reads_scripts_says_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(written(cells_of(HEAD, SAVE), 1, escaped=False), "utf-8")
    with pytest.raises(DdpifyError, match="this is a notebook") as refused:
        read_source(path)
    assert "ddpify convert" in (refused.value.remedy or "")


@pytest.mark.parametrize(("strict", "found"), [([], 0), (["--strict"], 1)])
def test_a_group_in_each_of_two_cells(
    tmp_path: Path, ddpify: Ddpify, strict: list[str], found: int
) -> None:
    """A cell may show a script that is run by itself."""
    path = tmp_path / "lesson.ipynb"
    start = "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
    path.write_text(written([cell(start), cell(start)], 1, escaped=False))
    done = ddpify("lint", path, "--select", "DDP709", *strict)
    assert done.stdout.count("ValueError") == found
