"""Writes what came of a conversion, and says in a few lines what was done."""

from __future__ import annotations

from pathlib import Path

from ddpify.convert.conversion import Conversion
from ddpify.errors import DdpifyError
from ddpify.source import write_atomically


def check_output(script: Path, output: Path, *, overwrite: bool) -> None:
    """Refuse to write over the script, into a missing folder, or over another file unasked."""
    if output.is_dir():
        raise DdpifyError("the output is a folder", path=output, remedy="name a file", exit_code=2)
    if not output.parent.is_dir():
        raise DdpifyError(
            "the output's folder does not exist",
            path=output,
            remedy=f"make it: mkdir -p {output.parent}",
            exit_code=2,
        )
    if not output.exists():
        return
    if script.exists() and output.samefile(script):
        raise DdpifyError(
            "the output is the script itself", path=output, remedy="name another file", exit_code=2
        )
    if not overwrite:
        raise DdpifyError(
            "the output exists already",
            path=output,
            remedy="add --overwrite to replace it, or name another file",
            exit_code=2,
        )


def write(conversion: Conversion, output: Path, *, vendor: bool) -> None:
    """Write the converted script, and the runtime helper beside it where asked."""
    if vendor:
        from ddpify.vendor import VENDORED_NAME, bundle

        write_atomically(output.parent / VENDORED_NAME, bundle().encode())
    write_atomically(output, conversion.data)


def report(conversion: Conversion, output: Path | None) -> str:
    """What was done, the points to look at first."""
    attention = [n for n in conversion.notes if n.attention]
    done = [n for n in conversion.notes if not n.attention]
    path = conversion.source.path
    lines = [f"{path}: {len(done)} changes" + (f", written to {output}" if output else "")]
    lines += [f"  {path}:{note.line}: {note.text}" for note in done]
    if attention:
        lines.append("look at:")
        lines += [f"  {path}:{note.line}: {note.text}" for note in attention]
    if output is not None:
        lines.append(f"run it: torchrun --nproc_per_node=N {output}")
    return "\n".join(lines)
