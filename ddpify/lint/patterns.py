"""Glob patterns of paths, as configuration and .gitignore have them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


def matches(path: Path, pattern: str, root: Path) -> bool:
    """Whether a pattern means a path: by its name alone, or by its path from the root."""
    name = re.fullmatch(as_regex(pattern.rstrip("/")), path.name)
    if name or "/" not in pattern.rstrip("/"):
        return bool(name)
    absolute = path.absolute()
    if not absolute.is_relative_to(root.absolute()):
        return False
    relative = absolute.relative_to(root.absolute()).as_posix()
    wanted = pattern.strip("/").removeprefix("./")
    return bool(re.fullmatch(as_regex(wanted) + "(?:/.*)?", relative))


@cache
def as_regex(pattern: str) -> str:
    """A glob as a regular expression: ``*`` stays inside a name, ``**`` crosses folders."""
    made, rest = "", pattern
    while rest:
        for glob, regex in (
            ("**/", "(?:.*/)?"),
            ("/**", "/.*"),
            ("**", ".*"),
            ("*", "[^/]*"),
            ("?", "[^/]"),
        ):
            if rest.startswith(glob):
                made, rest = made + regex, rest[len(glob) :]
                break
        else:
            match = re.match(r"\[[^\]]+\]", rest)
            taken = match[0] if match else rest[0]
            made += taken.replace("[!", "[^") if match else re.escape(taken)
            rest = rest[len(taken) :]
    return made
