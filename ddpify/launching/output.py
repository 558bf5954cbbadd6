"""Where a launch file goes."""

from __future__ import annotations

from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode
from ddpify.source import write_atomically


def put(text: str, output: Path | None, *, overwrite: bool) -> None:
    """Print ``text``, or write it to ``output``.

    Raises:
        DdpifyError: With exit code 2: the file exists and is not to be replaced, or cannot be
            written.
    """
    if output is None or str(output) == "-":
        print(text, end="")
        return
    if output.exists() and not overwrite:
        raise DdpifyError(
            "the output exists already",
            path=output,
            remedy="add --overwrite to replace it, or name another file",
            exit_code=ExitCode.USAGE,
        )
    write_atomically(output, text.encode())
