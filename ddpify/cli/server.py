"""``ddpify server``."""

from __future__ import annotations

from ddpify.cli.app import app
from ddpify.errors import DdpifyError, ExitCode


@app.command()
def server() -> None:
    """Serve an editor (the Language Server Protocol on standard input and output)."""
    try:
        from ddpify.editor.server import serve
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("pygls", "lsprotocol"):
            raise
        raise DdpifyError(
            f"the language server needs {package}, which is not installed",
            remedy="pip install 'ddpify[editor]'",
            exit_code=ExitCode.USAGE,
        ) from missing
    serve()
