"""One conversion: understand, plan, edit, check."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

import libcst as cst

from ddpify import progress
from ddpify.codemods.launch import process_group
from ddpify.codemods.pipeline import collect
from ddpify.convert.distributed import advice
from ddpify.convert.formatting import formatted_alike
from ddpify.convert.marking import mark
from ddpify.convert.notebooks import SUFFIX, notebook_source, notes_of
from ddpify.convert.packages import levels, started_from
from ddpify.errors import DdpifyError
from ddpify.planning.conversion_options import Options
from ddpify.planning.edits import Edits, Note
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import AlreadyDistributed, Refusal
from ddpify.planning.shardable import refuse_unshardable
from ddpify.planning.solver import make_plan
from ddpify.planning.whole_work import left_whole, refuse_unshared_training
from ddpify.source import Source, read_source
from ddpify.stack import roomy
from ddpify.understanding.project import ModuleFile, Project


@dataclass(frozen=True, slots=True)
class Conversion:
    """What came of a file: the new text as bytes, what was done where, and what starts it."""

    source: Source
    data: bytes
    notes: tuple[Note, ...]
    runs_with: str = "torchrun --nproc_per_node=N"
    levels: int = 0  # dots of its imports: so many packages it is in, at least
    arguments: tuple[str, ...] = ()  # that it was converted for
    whole: str = ""  # what every rank still does by itself, where that is most of the work

    @property
    def complete(self) -> bool:
        """Whether nothing is left that is only marked as not converted."""
        return not any(note.unconverted for note in self.notes)

    def diff(self, name: str) -> str:
        """A unified diff from the original to the file that is to be called ``name``."""
        written = self.source.text if self.source.before is None else self.source.before
        before = written.splitlines(keepends=True)
        after = self.data.decode(self.source.encoding).splitlines(keepends=True)
        lines = unified_diff(before, after, str(self.source.path), name)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def convert_file(path: str | os.PathLike[str], options: Options | None = None) -> Conversion:
    """Convert one script, or that of a notebook's cells; files that it imports are not changed.

    Where it is refused because such a file would have to change, the remedy names the command
    that converts the project.

    Raises:
        DdpifyError: The file cannot be read, or is not converted (a ``Refusal``), with the line
            and what would help.
    """
    cells = os.fspath(path).endswith(SUFFIX)
    source = notebook_source(Path(path)) if cells else read_source(path)
    options = options or Options()
    project = Project(source)
    try:
        made = conversions(project, options)[project.entry]
        others = tuple(notes_of(source)) if cells else ()
        return replace(made, notes=others + made.notes)
    except AlreadyDistributed as refusal:
        refusal.remedy = advice(source)
        raise
    except Refusal as refusal:
        raise _with_siblings(refusal, project, options) from None


@roomy
def conversions(project: Project, options: Options) -> dict[ModuleFile, Conversion]:
    """The files of a project that change, its entries first.

    Raises:
        Refusal: The training is not converted.
    """
    project.arguments = options.arguments
    with progress.shown("round"):
        plan = make_plan(project, options)
    plan.options = _with_free_alias(options, plan.editable)
    if options.strategy != "ddp":
        refuse_unshardable(plan)
    edits = collect(plan)
    process_group.edit(plan, edits)
    refuse_unshared_training(plan, edits)
    for refusal in plan.refusals:
        mark(refusal, plan, edits)
    _rename_async(plan, edits)
    changed = [
        file
        for file in plan.editable
        if file in project.entries or edits.change_in(file) or file.source.renamed_async
    ]
    made = {module: _changed(module, edits) for module in changed}
    shown = {one.source.path for one in made.values()}
    entry = made[project.entry]  # which also says what to look at in files that stay as they are
    made[project.entry] = replace(
        entry,
        notes=entry.notes + tuple(note for note in edits.notes if note.path not in shown),
        arguments=options.arguments,
        whole=left_whole(plan, edits),
    )
    return made


def _rename_async(plan: Plan, edits: Edits) -> None:
    """Say where ``async=`` was renamed, as the files were read."""
    for file in plan.project.files:
        for line in file.source.renamed_async:
            if not file.editable:
                message = "async= is no argument since Python 3.7: it is called non_blocking= now"
                remedy = "change it, or convert the whole project"
                plan.refuse(Refusal(file, None, f"line {line}: {message}", remedy))
            text = "async= is called non_blocking= since Python 3.7"
            edits.notes.append(Note(file.source.path, line, text))


def _changed(module: ModuleFile, edits: Edits) -> Conversion:
    source = module.source
    data = formatted_alike(module, edits.apply(module).code).encode(source.encoding)
    _check(source, data)
    notes = [note for note in edits.notes if note.path == source.path]
    ordered = tuple(sorted(notes, key=lambda note: note.line))
    return Conversion(source, data, ordered, levels=levels(module))


def _with_siblings(refusal: Refusal, project: Project, options: Options) -> Refusal:
    """The same refusal; where the whole project is converted, its remedy says how."""
    if len(project.files) == 1 or refusal.of_the_script:
        return refusal
    folders = [file.path.resolve().parent for file in project.files]
    if levels(project.entry):
        folders.append(started_from(project.entry.path.resolve(), levels(project.entry))[0])
    folder = Path(os.path.commonpath(folders))
    shown = Path(os.path.relpath(folder)) if folder.is_relative_to(Path.cwd()) else folder
    entry = project.entry.path.resolve().relative_to(folder)
    try:
        whole = Project(read_source(shown / entry), folder=shown)
        whole.budget = project.budget  # of the entry, however often it is understood
        changed = conversions(whole, options)
    except DdpifyError:
        return refusal
    others = [
        note for module, one in changed.items() if module is not whole.entry for note in one.notes
    ]
    if not others:
        return refusal
    places = "; ".join(f"{note.path}:{note.line}: {note.text}" for note in others[:3])
    more = f"; and {len(others) - 3} more" if len(others) > 3 else ""
    refusal.remedy = (
        f"convert the whole project: ddpify convert {shown} -o OUT --entry {entry}"
        f" (it changes {places}{more})"
    )
    return refusal


def _with_free_alias(options: Options, files: list[ModuleFile]) -> Options:
    """An alias that the scripts do not use for something else."""
    nodes = (node for file in files for node in file.parents)
    names = {node.value for node in nodes if isinstance(node, cst.Name)}
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
