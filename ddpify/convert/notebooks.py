"""The script that a notebook's code cells make, to be converted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode
from ddpify.lint.files import notebooks
from ddpify.planning.edits import Note
from ddpify.source import Source, source_from_bytes

SUFFIX = ".ipynb"
_MAGIC = re.compile(rf"^{re.escape(notebooks.INSTEAD)}(.*)$", re.MULTILINE)
_INDENTED = re.compile(rf"^ +{re.escape(notebooks.INSTEAD)}(.*)$", re.MULTILINE)


def notebook_source(path: Path) -> Source:
    """The code cells of a notebook as one script, with magics and shell lines as comments.

    Raises:
        DdpifyError: With exit code 2 when it cannot be read, or its cells are no Python.
    """
    try:
        script, _ = notebooks.join(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DdpifyError(
            f"cannot read this notebook: {error}",
            path=path,
            remedy="save it in Jupyter once",
            exit_code=ExitCode.USAGE,
        ) from error
    return source_from_bytes(_MAGIC.sub(r"# \1", script).encode(), str(path))


def notes_of(source: Source) -> Iterator[Note]:
    """What a script does not do that the notebook does.

    source: as ``notebook_source`` gives it. Lines are those of the script.
    """
    known = {f"# {line}" for line in _magics(Path(source.path))}
    for number, line in enumerate(source.text.splitlines(), 1):
        indented = _INDENTED.match(line)
        if line in known or indented is not None:
            shown = indented[1] if indented else line.removeprefix("# ")
            text = f"a script does not do this line of the notebook: {shown}"
            yield Note(source.path, number, text, attention=True)


def _magics(path: Path) -> list[str]:
    return _MAGIC.findall(notebooks.join(path.read_bytes())[0])
