"""Keeps a script that is formatted by Black formatted by Black; any other keeps its own form."""

from __future__ import annotations

from pathlib import Path

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure

_LONGEST = 200_000  # characters; Black takes seconds for more


def formatted_alike(module: ModuleFile, text: str) -> str:
    """``text`` as Black would write it, if that is how the module is written."""
    if len(module.source.text) > _LONGEST or _surely_not_black(module):
        return text
    mode = _mode(Path(module.source.path))
    formatted = _black(text, mode)
    if formatted in (text, None):
        return text
    return formatted if _black(module.source.text, mode) == module.source.text else text


def _surely_not_black(module: ModuleFile) -> bool:
    """Whether a glance shows that Black did not write it: loading and asking Black takes longer."""
    if "fmt:" in module.source.text:
        return False  # Black leaves lines that are marked so
    return _has_tight_code(module.structure) or _has_single_quotes(module)


def _has_tight_code(structure: Structure) -> bool:
    """``x=1``, ``f(x,y)``, ``a*b``: Black puts spaces there, but for powers and in texts."""
    targets = structure.all(cst.AssignTarget)
    commas = [
        one.comma
        for call in structure.all(cst.Call)
        for one in call.args[:-1]
        if isinstance(one.comma, cst.Comma)
    ]
    operators = [
        one.operator
        for one in structure.all(cst.BinaryOperation)
        if not isinstance(one.operator, cst.Power)
        and not any(isinstance(x, cst.FormattedStringExpression) for x in structure.up(one))
    ]
    return (
        any(one.whitespace_before_equal.empty for one in targets)
        or any(one.whitespace_before.empty for one in operators)  # type: ignore[attr-defined]
        or any(one.whitespace_after.empty for one in commas)
    )


def _has_single_quotes(module: ModuleFile) -> bool:
    """Black leaves single quotes where double ones would need escapes, and where it is told to."""
    if any(map(_keeps_quotes, Path(module.source.path).resolve().parents)):
        return False
    strings = module.structure.all(cst.SimpleString)
    return any(one.value[:1] == "'" and not {'"', "\\"} & {*one.value} for one in strings)


def _keeps_quotes(folder: Path) -> bool:
    try:
        settings = (folder / "pyproject.toml").read_text("utf-8")
    except (OSError, ValueError):
        return False
    return "skip-string-normalization" in settings or "skip_string_normalization" in settings


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
