"""``convert`` for an editor: the diff to look at, and the new file beside the script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddpify.convert import convert_file
from ddpify.convert.output import report
from ddpify.editor.findings import encoded
from ddpify.errors import DdpifyError, ExitCode


@dataclass(frozen=True)
class Converted:
    """What came of a script.

    Attributes:
        output: The file that it is to be.
        text: What is to stand in it.
        diff: From the script to that, as ``ddpify convert --diff`` shows it.
        report: What was changed where, and how to run it.
    """

    output: Path
    text: str
    diff: str
    report: str

    @property
    def summary(self) -> str:
        """How much was changed, and how to run it."""
        lines = self.report.splitlines()
        return f"{lines[0]}; {lines[-1]}"


def convert(path: Path, source: str) -> Converted:
    """Convert a saved script that an editor shows.

    Args:
        path: The script.
        source: The text in the editor.

    Raises:
        DdpifyError: It is not saved, or it is not converted, with the line and what would help.
    """
    if not path.is_file() or path.read_bytes() != encoded(source):
        raise DdpifyError(
            "the text in the editor is not that of the file",
            path=path,
            remedy="save it first: files that it imports are read as they are saved, too",
            exit_code=ExitCode.USAGE,
        )
    made = convert_file(path)
    output = path.with_name(f"{path.stem}_ddp.py")
    text = made.data.decode(made.source.encoding)
    return Converted(output, text, made.diff(str(output)), report(made, output))
