"""The command line: typer commands that turn results into text and exit codes.

Only the standard library and typer are imported here; each command imports what it needs, so that
help and linting start without torch.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import typer
from typer.main import get_command

from ddpify.cli import check, convert, launch, lint, run, scale, server, verify
from ddpify.cli.app import app
from ddpify.cli.other_launchers import remedy_for
from ddpify.errors import DdpifyError, ExitCode

__all__ = ["check", "convert", "launch", "lint", "main", "run", "scale", "server", "verify"]


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 not converted, 2 usage or bad input."""
    own, script = _split_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        result = _command()(own, standalone_mode=False, obj=script)
    except DdpifyError as error:
        print(f"ddpify: {error}", file=sys.stderr)
        return int(error.exit_code)
    except typer.Exit as end:
        return end.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130  # as a shell says that Ctrl-C ended a command
    except Exception as error:
        return _usage_error(error)
    return result if isinstance(result, int) else ExitCode.DONE


@cache
def _command() -> Any:
    """All commands and their options, built once: typer takes long to do it."""
    return get_command(app)


def _split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What follows ``--`` belongs to the script that is verified."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _usage_error(error: Exception) -> int:
    """Typer's own errors (an unknown option, a missing argument) show themselves."""
    show = getattr(error, "show", None)
    if show is None:
        raise error
    show()
    remedy = remedy_for(error)
    if remedy:
        print(f"  remedy: {remedy}", file=sys.stderr)
    return ExitCode.USAGE
