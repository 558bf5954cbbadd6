"""Weak scaling: the batch grows with the number of ranks, by an option of the script."""

from __future__ import annotations

from collections.abc import Sequence

from ddpify.errors import DdpifyError, ExitCode


def scaled(arguments: Sequence[str], option: str, ranks: int) -> list[str]:
    """The script's arguments with the option's value times ``ranks``.

    Args:
        arguments: As given after ``--``.
        option: Such as ``--batch-size``; its value is a whole number.
        ranks: The number of processes.

    Raises:
        DdpifyError: The option or its number is not there (exit code 2).
    """
    found = list(arguments)
    for at, word in enumerate(found):
        name, equals, value = word.partition("=")
        if name == option and equals and value.isdecimal():
            found[at] = f"{option}={int(value) * ranks}"
            return found
        if word == option and found[at + 1 : at + 2] and found[at + 1].isdecimal():
            found[at + 1] = str(int(found[at + 1]) * ranks)
            return found
    raise DdpifyError(
        f"the script's arguments have no {option} with a number",
        remedy=f"give it after --, for one rank: -- {option} 32",
        exit_code=ExitCode.USAGE,
    )
