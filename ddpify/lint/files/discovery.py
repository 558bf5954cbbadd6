"""Which files to lint: those named, and what lies below folders named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ddpify.lint.config import Settings, usage
from ddpify.lint.files.document import kind_of
from ddpify.lint.patterns import as_regex, matches


def discover(paths: Iterable[Path], settings: Settings, *, force_exclude: bool) -> list[Path]:
    """All files to lint, sorted, each once.

    A file that is named is linted even where it is excluded, unless ``force_exclude``.

    Raises:
        DdpifyError: With exit code 2 for a path that does not exist.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found |= dict.fromkeys(_below(path, settings))
        elif not path.exists():
            raise usage("no such file or folder", path=path, remedy="check the path")
        elif not (force_exclude and excluded(path, settings)):
            found[path] = None
    return sorted(found)


def _below(folder: Path, settings: Settings) -> Iterator[Path]:
    ignored = [Ignore.read(f) for f in _folders_to_root(folder)]
    yield from _walk(folder, settings, [one for one in ignored if one])


def _walk(folder: Path, settings: Settings, above: list[Ignore]) -> Iterator[Path]:
    own = Ignore.read(folder)
    rules = above if own is None or own in above else [*above, own]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        return
    for entry in entries:
        path = Path(entry.path)
        is_dir = entry.is_dir(follow_symlinks=False)
        if _excluded_name(path, settings) or any_ignores(rules, path, is_dir):
            continue
        if is_dir:
            yield from _walk(path, settings, rules)
        elif kind_of(path) is not None and entry.is_file():
            yield path


def excluded(path: Path, settings: Settings) -> bool:
    """Whether a path, or a folder above it below the root, is excluded."""
    absolute = path.absolute()
    inside = [absolute, *(p for p in absolute.parents if _is_below(p, settings.root))]
    return any(_excluded_name(p, settings) for p in inside)


def _is_below(path: Path, root: Path) -> bool:
    return path != root.absolute() and path.is_relative_to(root.absolute())


def _excluded_name(path: Path, settings: Settings) -> bool:
    return any(matches(path, pattern, settings.root) for pattern in settings.exclude)


# ---------------------------------------------------------------------- .gitignore
class Ignore:
    """The patterns of one .gitignore; a later pattern wins over an earlier one."""

    def __init__(self, folder: Path, lines: Iterable[str]) -> None:
        self.folder = folder.absolute()
        self.patterns = [one for one in map(_parse, lines) if one is not None]

    @staticmethod
    @cache
    def read(folder: Path) -> Ignore | None:
        """The .gitignore of a folder, if it has one."""
        try:
            text = (folder / ".gitignore").read_text("utf-8", "replace")
        except OSError:
            return None
        return Ignore(folder, text.splitlines())

    def verdict(self, path: Path, is_dir: bool) -> bool | None:
        """True: ignored; False: taken back by ``!``; None: not mentioned."""
        relative = path.absolute().relative_to(self.folder).as_posix()
        result = None
        for regex, negated, only_dirs in self.patterns:
            if (is_dir or not only_dirs) and regex.fullmatch(relative):
                result = not negated
        return result


def any_ignores(rules: list[Ignore], path: Path, is_dir: bool) -> bool:
    """What the nearest .gitignore that mentions a path says."""
    for rules_here in reversed(rules):
        verdict = rules_here.verdict(path, is_dir)
        if verdict is not None:
            return verdict
    return False


def _parse(line: str) -> tuple[re.Pattern[str], bool, bool] | None:
    line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    body = line.lstrip("!").removeprefix("\\")
    only_dirs = body.endswith("/")
    body = body.rstrip("/")
    anchored = "/" in body
    regex = as_regex(body.lstrip("/"))
    return re.compile(regex if anchored else f"(?:.*/)?{regex}"), negated, only_dirs


def _folders_to_root(folder: Path) -> list[Path]:
    """The folders from a repository's root down to ``folder``'s parent."""
    above: list[Path] = []
    for parent in (folder.absolute(), *folder.absolute().parents):
        if parent != folder.absolute():
            above.insert(0, parent)
        if (parent / ".git").exists():
            return above
    return []
