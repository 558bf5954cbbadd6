"""One conversion: understand, plan, edit, check."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import unified_diff

import libcst as cst

from ddpify.codemods import devices, files, loaders, models, process_group, reductions
from ddpify.convert.formatting import formatted_alike
from ddpify.errors import DdpifyError
from ddpify.planning.edits import Edits, Note
from ddpify.planning.options import Options
from ddpify.planning.plan import Plan, make_plan
from ddpify.source import Source, read_source
from ddpify.understanding.project import Project
from ddpify.understanding.syntax import walk

CODEMODS: tuple[Callable[[Plan, Edits], None], ...] = (
    devices.edit,
    loaders.edit,
    models.edit,
    reductions.edit,
    files.edit,
    process_group.edit,
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What came of a script: the new text as bytes, and what was done where."""

    source: Source
    data: bytes
    notes: tuple[Note, ...]

    def diff(self, name: str) -> str:
        """A unified diff from the original to the file that is to be called ``name``."""
        before = self.source.text.splitlines(keepends=True)
        after = self.data.decode(self.source.encoding).splitlines(keepends=True)
        lines = unified_diff(before, after, str(self.source.path), name)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def convert_file(path: str | os.PathLike[str], options: Options | None = None) -> Conversion:
    """Convert one script; other files that it imports are read, not changed.

    Raises:
        DdpifyError: The file cannot be read, or is not converted (a ``Refusal``), with the line
            and what would help.
    """
    source = read_source(path)
    project = Project(source)
    options = _with_free_alias(options or Options(), project.entry.tree)
    plan = make_plan(project, options)
    edits = Edits()
    for codemod in CODEMODS:
        codemod(plan, edits)
    changed = edits.apply(project.entry.tree)
    data = formatted_alike(source, changed.code).encode(source.encoding)
    _check(source, data)
    return Conversion(source, data, tuple(sorted(edits.notes, key=lambda note: note.line)))


def _with_free_alias(options: Options, tree: cst.Module) -> Options:
    """An alias that the script does not use for something else."""
    names = {node.value for node in walk(tree) if isinstance(node, cst.Name)}
    for alias in (options.alias, "ddp", "ddpify_runtime", "_dd"):
        if alias not in names:
            return replace(options, alias=alias)
    return replace(options, alias="_ddpify_runtime")


def _check(source: Source, data: bytes) -> None:
    """The result must be Python: a mistake of ours is found here and never written."""
    try:
        compile(data, str(source.path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise DdpifyError(
            f"the conversion would not be valid Python ({error.msg} in line {error.lineno})",
            path=str(source.path),
            remedy="please report this script; nothing was written",
            exit_code=1,
        ) from error
