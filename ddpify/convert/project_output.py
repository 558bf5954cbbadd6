"""Writes a converted project, and says what was done and what was left behind."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ddpify.convert.folder import Stock, take_stock
from ddpify.convert.git import check_clean
from ddpify.convert.packages import top
from ddpify.convert.project import ProjectConversion
from ddpify.errors import DdpifyError, ExitCode
from ddpify.source import write_atomically
from ddpify.vendor import VENDORED_NAME, bundle


def check_project_output(
    folder: Path, output: Path | None, *, in_place: bool, diff: bool, overwrite: bool
) -> None:
    """Refuse an output that contradicts another option, or that would destroy something.

    Raises:
        DdpifyError: With exit code 2.
    """
    if in_place and output is not None:
        raise _usage("both --in-place and -o say where to write", "give one of them")
    if in_place:
        check_clean(folder)
    elif output is None:
        if not diff:
            raise _usage("nowhere to write to", "give -o FOLDER, or --diff to look first")
    else:
        _check_folder(folder, output, overwrite=overwrite)


def _check_folder(folder: Path, output: Path, *, overwrite: bool) -> None:
    if output == Path("-"):
        raise _usage("a project does not fit on standard output", "give -o FOLDER, or --diff")
    if output.exists() and output.samefile(folder):
        remedy = "name another folder, or give --in-place"
        raise _usage("the output is the project itself", remedy, output)
    if folder.resolve().is_relative_to(output.resolve()):
        raise _usage("the output holds the project", "name a folder of its own", output)
    if not output.parent.is_dir():
        remedy = f"make it: mkdir -p {output.parent}"
        raise _usage("the output's folder does not exist", remedy, output)
    if output.is_file():
        raise _usage("the output is a file", "name a folder", output)
    if output.is_dir() and any(output.iterdir()) and not overwrite:
        remedy = "add --overwrite to replace the files in it, or name another folder"
        raise _usage("the output exists already, and is not empty", remedy, output)


def _usage(message: str, remedy: str, path: Path | None = None) -> DdpifyError:
    return DdpifyError(message, path=path, remedy=remedy, exit_code=ExitCode.USAGE)


def write_project(
    conversion: ProjectConversion, output: Path, *, vendor: bool, everything: bool
) -> Stock:
    """Write the project to a folder: all of it or, where that fails, nothing.

    Files keep their permissions and times, links stay links. What is in the output already and
    is not part of the project stays.
    """
    stock = take_stock(conversion.folder, output=output, everything=everything)
    aside = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        _fill(conversion, stock, aside)
        if vendor:
            for place in _beside_entries(conversion):
                (aside / place / VENDORED_NAME).write_text(bundle(), encoding="utf-8")
        _move(aside, output)
    except OSError as error:
        message = f"cannot write: {error.strerror or error}"
        remedy = "name a folder that you may write to, on a disk with room"
        raise _usage(message, remedy, output) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return stock


def _fill(conversion: ProjectConversion, stock: Stock, target: Path) -> None:
    source = conversion.folder
    for folder in stock.folders:
        (target / folder).mkdir(exist_ok=True)
    for file in stock.files:
        shutil.copy2(source / file, target / file, follow_symlinks=False)
    for file, changed in conversion.files.items():
        place = target / file
        mode = stat.S_IMODE(place.stat().st_mode)
        place.chmod(mode | stat.S_IWUSR)
        place.write_bytes(changed.data)
        place.chmod(mode)
    for folder in reversed(stock.folders):  # the inner ones first: a folder may be read-only
        shutil.copystat(source / folder, target / folder)


def _move(aside: Path, output: Path) -> None:
    """Move what was written into place, in one step where the output is new."""
    if not output.exists():
        aside.rename(output)
    else:
        shutil.copytree(
            aside, output, symlinks=True, dirs_exist_ok=True, copy_function=_replace_file
        )


def _replace_file(source: str, target: str) -> None:
    """Move a file of the new tree over what is there, so that no reader sees half of it."""
    if Path(target).is_dir() or Path(target).is_symlink():
        shutil.copy2(source, target)
    else:
        os.replace(source, target)


def write_in_place(conversion: ProjectConversion, *, vendor: bool) -> None:
    """Write the changed files over the project's own; if one cannot be written, none is."""
    written: list[Path] = []
    try:
        for file, changed in conversion.files.items():
            write_atomically(conversion.folder / file, changed.data)
            written.append(file)
        if vendor:
            for place in _beside_entries(conversion):
                helper = conversion.folder / place / VENDORED_NAME
                write_atomically(helper, bundle().encode())
    except (DdpifyError, KeyboardInterrupt):
        for file in written:
            write_atomically(conversion.folder / file, conversion.files[file].source.data)
        raise


def _beside_entries(conversion: ProjectConversion) -> list[Path]:
    """Where the entries import from: the folders that Python puts on its path for them."""
    return sorted({_start(conversion, entry)[0] for entry in conversion.entries})


def _start(conversion: ProjectConversion, entry: Path) -> tuple[Path, str]:
    """The folder, relative to the project, and how torchrun names the entry from there."""
    if entry not in conversion.packaged:
        return entry.parent, str(entry)
    place = top(conversion.folder, entry, conversion.packaged[entry])
    return place, f"-m {'.'.join(entry.relative_to(place).with_suffix('').parts)}"


def report_project(conversion: ProjectConversion, output: Path | None, stock: Stock | None) -> str:
    """What was done in each file, what to look at, what was left behind, and how to run it."""
    notes = [note for one in conversion.files.values() for note in one.notes]
    done = [note for note in notes if not note.attention]
    attention = [note for note in notes if note.attention]
    count = f"{_count(len(done), 'change')} in {_count(len(conversion.files), 'file')}"
    whole = "".join(f"; {one.whole}" for one in conversion.files.values() if one.whole)
    lines = [f"{conversion.folder}: {count}" + (f", written to {output}" if output else "") + whole]
    lines += [f"  {note}" for note in done]
    if attention:
        lines += ["look at:", *(f"  {note}" for note in attention)]
    if stock is not None:
        lines += _left_behind(stock)
    if output is not None:
        lines += _how_to_run(conversion, output)
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _left_behind(stock: Stock) -> Iterator[str]:
    if stock.left:
        yield "not copied (--copy-all copies data and weights, too):"
        yield from (f"  {left.path}: {left.why}" for left in stock.left[:20])
        if len(stock.left) > 20:
            yield f"  and {len(stock.left) - 20} more"


def _how_to_run(conversion: ProjectConversion, output: Path) -> Iterator[str]:
    for entry in conversion.entries:
        start, name = _start(conversion, entry)
        arguments = "".join(f" {shlex.quote(one)}" for one in conversion.files[entry].arguments)
        if entry in conversion.packaged:
            place = os.path.normpath(output / start)
            yield f"run it: cd {place} && torchrun --nproc_per_node=N {name}{arguments}"
        else:
            yield f"run it: torchrun --nproc_per_node=N {output / entry}{arguments}"
