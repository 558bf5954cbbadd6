"""Whether git can give back what a conversion in place writes over."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode

_OFF = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}")
_QUIET = {"GIT_OPTIONAL_LOCKS": "0"}


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
    """The lines that git prints, run so that the repository's configuration starts no program."""
    done = subprocess.run(
        ["git", "-C", str(folder), *_settings(folder), *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, **_QUIET},
    )  # fmt: skip
    return done.stdout.splitlines()


def _settings(folder: Path) -> list[str]:
    """Options that turn hooks, the file system monitor and all configured filters off."""
    listed = subprocess.run(
        ["git", "-C", str(folder), "config", "--null", "--name-only", "--get-regexp", r"^filter\."],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    drivers = {name.rpartition(".")[0] for name in listed.stdout.split("\0") if name}
    if any("=" in name for name in drivers):  # -c cannot express it
        raise OSError("a git filter has '=' in its name")
    off = [
        f"{driver}.{key}=" for driver in sorted(drivers) for key in ("clean", "smudge", "process")
    ]
    off += [f"{driver}.required=false" for driver in sorted(drivers)]
    return [part for setting in (*_OFF, *off) for part in ("-c", setting)]


def _usage(folder: Path, message: str, remedy: str) -> DdpifyError:
    return DdpifyError(message, path=folder, remedy=remedy, exit_code=ExitCode.USAGE)
