"""What ``ddpify convert`` does with its arguments: a script, a launch file, or a project."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ddpify.convert.conversion import convert_file
from ddpify.convert.launch_file import migrate_file
from ddpify.convert.output import choose_output, report, write
from ddpify.convert.project import convert_folder
from ddpify.convert.project_output import (
    check_project_output,
    report_project,
    write_in_place,
    write_project,
)
from ddpify.errors import DdpifyError, ExitCode
from ddpify.lint.files.document import LAUNCH, kind_of
from ddpify.planning.conversion_options import Options


@dataclass(frozen=True, slots=True)
class Request:
    """Where to read and where to write, as the command line says."""

    script: Path
    output: Path | None
    entries: tuple[Path, ...] = ()
    in_place: bool = False
    diff: bool = False
    overwrite: bool = False
    copy_all: bool = False
    quiet: bool = False


def run(request: Request, options: Options) -> ExitCode:
    """Convert, write, and report on standard error; whether all was converted.

    Raises:
        DdpifyError: Nothing is written then.
    """
    convert = _project if request.script.is_dir() else _script
    complete = convert(request, options)
    return ExitCode.DONE if complete else ExitCode.NOT_CONVERTED


def _not_a_folder(request: Request) -> DdpifyError:
    """What to say of an option for folders where the path is none."""
    if not request.script.exists():
        message, remedy = "no such file or folder", "check the path"
    else:
        option = "--entry" if request.entries else "--copy-all"
        message = f"{option} is for folders, and this is a file"
        remedy = "name the folder, or leave out the option"
    return DdpifyError(message, path=request.script, remedy=remedy, exit_code=ExitCode.USAGE)


def _script(request: Request, options: Options) -> bool:
    if request.entries or request.copy_all:
        raise _not_a_folder(request)
    target = choose_output(
        request.script,
        request.output,
        in_place=request.in_place,
        diff=request.diff,
        vendor=options.vendored,
        overwrite=request.overwrite,
    )
    if kind_of(request.script) == LAUNCH:
        conversion = migrate_file(request.script)
    else:
        conversion = convert_file(request.script, options)
    if request.diff:
        print(conversion.diff(str(target or request.script)), end="")
    if target is not None:
        write(conversion, target, vendor=options.vendored)
    if not request.quiet:
        print(report(conversion, target), file=sys.stderr)
    return conversion.complete


def _project(request: Request, options: Options) -> bool:
    folder, output = request.script, request.output
    check_project_output(
        folder,
        output,
        in_place=request.in_place,
        diff=request.diff,
        overwrite=request.overwrite,
    )
    conversion = convert_folder(folder, request.entries, options)
    if request.diff:
        for path, changed in conversion.files.items():
            print(changed.diff(str((output or folder) / path)), end="")
    stock = None
    if request.in_place:
        write_in_place(conversion, vendor=options.vendored)
    elif output is not None:
        stock = write_project(
            conversion, output, vendor=options.vendored, everything=request.copy_all
        )
    if not request.quiet:
        written = folder if request.in_place else output
        print(report_project(conversion, written, stock), file=sys.stderr)
    return all(changed.complete for changed in conversion.files.values())
