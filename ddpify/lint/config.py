"""``[tool.ddpify]`` of pyproject.toml, joined with what the command line says."""

from __future__ import annotations

import sys
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from ddpify import codes
from ddpify.errors import DdpifyError, ExitCode
from ddpify.lint.patterns import matches
from ddpify.records import record

EXCLUDED = (
    ".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox",
    ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__", "__pypackages__",
    "_build", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip
_LISTS = ("select", "ignore", "extend-select", "exclude", "extend-exclude")


@record
class Settings:
    """What is checked, and where. Paths are relative to ``root``."""

    root: Path = field(default_factory=Path.cwd)
    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = EXCLUDED
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    strict: bool = False

    @property
    def codes(self) -> set[str]:
        """The codes of the rules that run.

        A longer selector wins over a shorter one, as in ruff: ``--select DDP1 --ignore DDP``
        leaves DDP1xx on.
        """
        weight: dict[str, tuple[int, bool]] = {}
        chosen = [(s, True) for s in (*self.select, *self.extend_select)]
        for selector, on in chosen + [(s, False) for s in self.ignore]:
            for code in _meant(selector):
                rank = 0 if selector.upper() == "ALL" else len(codes.code_of(selector) or selector)
                if code not in weight or rank >= weight[code][0]:
                    weight[code] = (rank, on)
        return {code for code, (_, on) in weight.items() if on}

    def ignored_in(self, path: Path) -> set[str]:
        """The codes that per-file-ignores switch off for a file."""
        found: set[str] = set()
        for pattern, selectors in self.per_file_ignores:
            if matches(path, pattern, self.root):
                found |= {code for selector in selectors for code in _meant(selector)}
        return found


def _meant(selector: str) -> set[str]:
    try:
        return codes.select(selector)
    except KeyError:
        raise usage(
            f"no rule is called {selector!r}", remedy="`ddpify rule --all` lists the rules"
        ) from None


def usage(message: str, *, path: Path | None = None, remedy: str | None = None) -> DdpifyError:
    """An error of the command or its configuration: exit code 2."""
    return DdpifyError(message, path=path, remedy=remedy, exit_code=ExitCode.USAGE)


def find(start: Path) -> Path | None:
    """The nearest pyproject.toml at or above ``start`` that has ``[tool.ddpify]``."""
    for folder in (start, *start.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file() and "tool.ddpify" in candidate.read_text("utf-8", "replace"):
            return candidate
    return None


def load(path: Path | None) -> Settings:
    """The settings of a pyproject.toml, or the defaults.

    Raises:
        DdpifyError: With exit code 2: unreadable, an unknown key, or a value of a wrong type.
    """
    if path is None:
        return Settings()
    table = _table(path)
    known = {*_LISTS, "launch", "per-file-ignores", "strict"}
    for key in table:
        if key not in known:
            raise usage(f"unknown key {key!r} in [tool.ddpify]", path=path,
                        remedy=f"known keys are {', '.join(sorted(known))}")  # fmt: skip
    lists = {key: _strings(table[key], key, path) for key in _LISTS if key in table}
    strict = table.get("strict", False)
    if not isinstance(strict, bool):
        raise usage("'strict' must be true or false", path=path)
    made = Settings(
        root=path.parent,
        select=lists.get("select", ("ALL",)),
        ignore=lists.get("ignore", ()),
        extend_select=lists.get("extend-select", ()),
        exclude=lists.get("exclude", EXCLUDED) + lists.get("extend-exclude", ()),
        per_file_ignores=_per_file(table.get("per-file-ignores", {}), path),
        strict=strict,
    )
    _ = made.codes  # an unknown selector is an error now, not at the first file
    for _, selectors in made.per_file_ignores:
        for selector in selectors:
            _meant(selector)
    return made


def _table(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise usage(f"cannot read this file: {error}", path=path) from error
    table = data.get("tool", {}).get("ddpify", {})
    return table if isinstance(table, dict) else {}


def _strings(given: object, key: str, path: Path) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise usage(f"{key!r} must be a list of strings", path=path)
    return tuple(given)


def _per_file(given: object, path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(given, dict):
        raise usage("'per-file-ignores' must be a table of lists", path=path)
    return tuple((p, _strings(names, "per-file-ignores", path)) for p, names in given.items())


def digest(settings: Settings) -> str:
    """What of the settings the findings of a file depend on."""
    return repr([(f.name, getattr(settings, f.name)) for f in fields(settings)])
