"""What a command gives an option or a setting: ``--steps 4``, ``--amp``, ``train.steps=4``."""

from __future__ import annotations

from collections.abc import Collection

from ddpify.records import record


@record
class Spelling:
    """How an option is written, with ``--`` or ``-``, and a setting of the same name."""

    flags: frozenset[str]
    names: frozenset[str]


def is_given(spelling: Spelling, command: str) -> bool:
    """Whether a command gives it, with or without a value."""
    return any(_gives(word, spelling.flags, spelling.names) for word in command.split())


def text_given(spelling: Spelling, command: str) -> str | None:
    """What is written behind it; None where that is a variable, or nothing."""
    words = command.split()
    at = next(i for i, one in enumerate(words) if _gives(one, spelling.flags, spelling.names))
    _, assigned, behind = words[at].partition("=")
    if not assigned and at + 1 < len(words):
        behind = words[at + 1]
    text = behind.strip("\"'`")
    return None if not text or text.startswith(("$", "{", "<", "[")) or _is_option(text) else text


def _is_option(text: str) -> bool:
    return text.startswith("-") and not text[1:2].isdigit()


def _gives(word: str, flags: Collection[str], names: Collection[str]) -> bool:
    """Whether a word of a command gives a setting: ``--name``, shortened, or ``part.name=3``."""
    written, assigned, _ = word.partition("=")
    if written.startswith("--") and len(written) > 2:
        return any(one.startswith(written) for one in flags) or written.rsplit(".")[-1] in names
    return written in flags or (bool(assigned) and written.rsplit(".", 1)[-1].lstrip("+") in names)
