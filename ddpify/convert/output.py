"""Writes what came of a conversion, and says in a few lines what was done."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from ddpify.convert.conversion import Conversion
from ddpify.convert.packages import started_from
from ddpify.errors import DdpifyError, ExitCode
from ddpify.source import STDIN, write_atomically
from ddpify.vendor import VENDORED_NAME, bundle

STDOUT = Path("-")


def choose_output(
    script: Path,
    output: Path | None,
    *,
    in_place: bool,
    diff: bool,
    vendor: bool,
    overwrite: bool,
) -> Path | None:
    """The file to write, ``STDOUT``, or None for a diff alone.

    Raises:
        DdpifyError: With exit code 2: the options contradict each other, or writing there would
            destroy something or could not work.
    """
    if in_place:
        _check_in_place(script, output)
        output = script
    elif output is None and not diff:
        raise _usage("nowhere to write to", remedy="give -o FILE, or --diff to look first")
    elif output == STDOUT:
        _check_stdout(diff=diff, vendor=vendor)
        return STDOUT
    elif output is not None:
        _check_output(script, output, overwrite=overwrite)
    if output is not None and vendor and not overwrite:
        _check_vendored(output.parent / VENDORED_NAME)
    return output


def _usage(message: str, *, remedy: str, path: Path | None = None) -> DdpifyError:
    return DdpifyError(message, path=path, remedy=remedy, exit_code=ExitCode.USAGE)


def _check_in_place(script: Path, output: Path | None) -> None:
    if output is not None:
        raise _usage("both --in-place and -o say where to write", remedy="give one of them")
    if script.suffix == ".ipynb":
        raise _usage("a notebook is converted to a script", remedy="give -o FILE.py")
    if str(script) == STDIN:
        raise _usage("standard input has no place to write to", remedy="give -o -, or -o FILE")


def _check_stdout(*, diff: bool, vendor: bool) -> None:
    if diff:
        raise _usage(
            "the diff and the script would both go to standard output",
            remedy="leave out --diff, or give -o FILE",
        )
    if vendor:
        raise _usage(
            "--vendor writes a second file beside the output, which is standard output",
            remedy="give -o FILE",
        )


def _check_output(script: Path, output: Path, *, overwrite: bool) -> None:
    """Refuse to write over the script, into a missing folder, or over another file unasked."""
    if os.path.isdir(output):
        raise _usage("the output is a folder", path=output, remedy="name a file")
    if not os.path.isdir(output.parent):
        raise _usage(
            "the output's folder does not exist",
            path=output,
            remedy=f"make it: mkdir -p {output.parent}",
        )
    if not os.path.exists(output):
        return
    if os.path.exists(script) and output.samefile(script):
        raise _usage(
            "the output is the script itself",
            path=output,
            remedy="name another file, or give --in-place",
        )
    if not overwrite:
        raise _usage(
            "the output exists already",
            path=output,
            remedy="add --overwrite to replace it, or name another file",
        )


def _check_vendored(helper: Path) -> None:
    """A helper that is there already may stay only if it is the one that would be written."""
    try:
        same = helper.read_bytes() == bundle().encode()
    except FileNotFoundError:
        return
    except OSError:
        same = False
    if not same:
        raise _usage(
            "a file of this name exists already, and is not this version's runtime helper",
            path=helper,
            remedy="add --overwrite to replace it",
        )


def write(conversion: Conversion, output: Path, *, vendor: bool) -> None:
    """Write the converted script, and the runtime helper beside it where asked."""
    if output == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(conversion.data)
        sys.stdout.buffer.flush()
        return
    if vendor:
        write_atomically(output.parent / VENDORED_NAME, bundle().encode())
    write_atomically(output, conversion.data)


def report(conversion: Conversion, output: Path | None) -> str:
    """What was done, the points to look at first."""
    attention = [n for n in conversion.notes if n.attention]
    done = [n for n in conversion.notes if not n.attention]
    path = conversion.source.path
    written = None if output == STDOUT else output
    count = "1 change" if len(done) == 1 else f"{len(done)} changes"
    whole = f"; {conversion.whole}" if conversion.whole else ""
    lines = [f"{path}: {count}" + (f", written to {written}" if written else "") + whole]
    lines += [f"  {note}" for note in done]
    if attention:
        lines.append("look at:")
        lines += [f"  {note}" for note in attention]
    if written is not None:
        lines.append(f"check its first steps on your GPUs: {_checked(conversion, written)}")
        lines.append(f"run it: {_started(conversion, written)}")
    return "\n".join(lines)


def _checked(conversion: Conversion, written: Path) -> str:
    """The command that watches the ranks' first steps where it will run."""
    return f"DDPIFY_CHECK=20 {_started(conversion, written)}"


def _started(conversion: Conversion, written: Path) -> str:
    """The command that starts it: from above its package, where it imports from that."""
    arguments = f" {shlex.join(conversion.arguments)}" if conversion.arguments else ""
    beside = written.resolve().parent == Path(conversion.source.path).resolve().parent
    if not conversion.levels or not beside:
        return f"{conversion.runs_with} {written}{arguments}"
    root, name = started_from(written.resolve(), conversion.levels)
    return f"cd {os.path.relpath(root)} && {conversion.runs_with} -m {name}{arguments}"
