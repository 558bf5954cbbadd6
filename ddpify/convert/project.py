"""The conversion of a whole project: every file that takes part in the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpify.convert.conversion import Conversion, conversions
from ddpify.convert.folder import training_scripts
from ddpify.convert.packages import check_package, levels
from ddpify.errors import DdpifyError, ExitCode
from ddpify.planning.conversion_options import Options
from ddpify.source import read_source
from ddpify.understanding.project import Project


@dataclass(frozen=True, slots=True)
class ProjectConversion:
    """What came of a project: the files that change, by their path in it, entries first.

    ``entries`` are relative to ``folder``; ``packaged`` are those of them that import from the
    package they are in, and so are run as modules, with the most dots of their imports.
    """

    folder: Path
    entries: tuple[Path, ...]
    packaged: dict[Path, int]
    files: dict[Path, Conversion]


def convert_folder(
    folder: Path, entries: Sequence[Path], options: Options | None = None
) -> ProjectConversion:
    """Convert the scripts of a project and the modules in it that they import.

    ``entries`` are relative to the folder, or else to the working folder.

    Raises:
        DdpifyError: A file cannot be read, or the training is not converted (a ``Refusal``), with
            file, line and what would help.
    """
    relative = [_within(folder, entry) for entry in entries] or _no_entry(folder)
    project = Project(*(read_source(folder / entry) for entry in relative), folder=folder)
    for entry, file in zip(relative, project.entries, strict=True):
        check_package(folder, entry, file)
    root = folder.resolve()
    files = {
        module.path.resolve().relative_to(root): conversion
        for module, conversion in conversions(project, options or Options()).items()
    }
    dots = {e: levels(file) for e, file in zip(relative, project.entries, strict=True)}
    packaged = {entry: number for entry, number in dots.items() if number}
    return ProjectConversion(folder, tuple(relative), packaged, files)


def _within(folder: Path, entry: Path) -> Path:
    """The entry, relative to the folder."""
    for place in (folder / entry, entry):
        if place.is_file() and place.resolve().is_relative_to(folder.resolve()):
            return place.parent.resolve().relative_to(folder.resolve()) / place.name
    raise DdpifyError(
        "no such file in the project",
        path=folder / entry,
        remedy="give --entry the script's path relative to the folder",
        exit_code=ExitCode.USAGE,
    )


def _no_entry(folder: Path) -> list[Path]:
    """Nothing says which script starts the training: show what there is."""
    found = [str(path) for path in training_scripts(folder)]
    shown = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
    raise DdpifyError(
        "this is a folder, and nothing says which script in it starts the training",
        path=folder,
        remedy="give --entry SCRIPT" + (f" (one of {shown})" if found else ""),
        exit_code=ExitCode.USAGE,
    )
