"""Keeps a script that is formatted by Black formatted by Black; any other keeps its own form."""

from __future__ import annotations

from pathlib import Path

from ddpify.source import Source


def formatted_alike(source: Source, text: str) -> str:
    """``text`` as Black would write it, if that is how the original is written."""
    mode = _mode(Path(source.path))
    if len(source.text) > _LONGEST or _black(source.text, mode) != source.text:
        return text
    return _black(text, mode) or text


_LONGEST = 200_000  # characters; Black takes seconds for more


def _black(text: str, mode: object) -> str | None:
    """The text in Black's form; None where Black does not take it."""
    import black
    from black.parsing import InvalidInput

    try:
        return black.format_str(text, mode=mode)  # type: ignore[arg-type]
    except (InvalidInput, ValueError, AssertionError):
        return None


def _mode(path: Path) -> object:
    """Black's settings for a file: those of its project's ``pyproject.toml``."""
    import black
    from black.const import DEFAULT_LINE_LENGTH
    from black.files import find_pyproject_toml, parse_pyproject_toml

    config = find_pyproject_toml((str(path.resolve().parent),))
    try:
        settings = parse_pyproject_toml(config) if config else {}
    except (OSError, ValueError):
        settings = {}
    return black.Mode(
        line_length=int(settings.get("line_length", DEFAULT_LINE_LENGTH)),
        string_normalization=not settings.get("skip_string_normalization", False),
        magic_trailing_comma=not settings.get("skip_magic_trailing_comma", False),
    )
