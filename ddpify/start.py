"""Where the command starts: plain ``ddpify lint`` without typer, all else with it."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from ddpify import garbage


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code (see :func:`ddpify.cli.main`)."""
    given = sys.argv[1:] if arguments is None else arguments
    garbage.look_rarely()
    # They go when the process ends, without a last search for garbage, which takes as long.
    atexit.register(gc.freeze)
    try:
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # ``ddpify lint | head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says that Ctrl-C ended a command
    return code


def _run(given: list[str]) -> int:
    if given[:1] == ["lint"]:
        code = _lint(given[1:])
        if code is not None:
            return code
    from ddpify.cli import main as with_typer

    return with_typer(given)


def _lint(given: list[str]) -> int | None:
    """The exit code of a plain ``lint``; None where the command line is not plain."""
    from ddpify.lint import light_libcst, lint_options

    read = lint_options.read(given)
    if read is None:
        return None
    light_libcst.install()
    from ddpify.errors import DdpifyError
    from ddpify.lint.command import run

    try:
        return run(*read)
    except DdpifyError as error:
        print(f"ddpify: {error}", file=sys.stderr)
        return int(error.exit_code)
