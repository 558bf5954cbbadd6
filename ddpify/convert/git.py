"""Whether git can give back what a conversion in place writes over."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode


def check_clean(folder: Path) -> None:
    """Refuse a folder that git does not hold as it stands.

    Raises:
        DdpifyError: With exit code 2: no repository, or changes that are not committed.
    """
    try:
        changed = _git(folder, "status", "--porcelain", "--untracked-files=all", "--", "*.py")
        changed += _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.CalledProcessError) as error:
        raise _usage(
            folder,
            "--in-place needs a git repository, which can undo it, and this is none",
            "commit it first (git init; git add -A; git commit), or give -o FOLDER",
        ) from error
    if changed:
        name = changed[0][3:]
        raise _usage(
            folder,
            f"--in-place needs a clean git state, and {name} is not committed as it stands",
            "commit or stash your changes first (git status shows them), or give -o FOLDER",
        )


def _git(folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _usage(folder: Path, message: str, remedy: str) -> DdpifyError:
    return DdpifyError(message, path=folder, remedy=remedy, exit_code=ExitCode.USAGE)
