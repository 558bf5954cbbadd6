"""What configuration files of a project set, in YAML, TOML or JSON, by their keys alone."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ddpify.understanding.texts import files_within, folders_above, text_of

_KINDS = frozenset({".yaml", ".yml", ".toml", ".json"})
_FOLDERS = ("config", "configs", "conf", "cfg", "cfgs", "options", "settings", "experiments")
_NAMES_OTHERS = re.compile(
    r"\.(?:ya?ml|toml|json)\b|(?m:^\s*(?:_?base_?|defaults|include)\b\s*[:=])"
)
_ELSEWHERE = ("", "{", "[", "|", ">", "&", "*", "$", "!")  # what a key has is not a word beside it
_WORDS = {"true": True, "false": False, "null": None, "none": None, "~": None}


def settings_around(script: Path) -> dict[Path, str]:
    """The configuration files in a script's folder and above it, and in folders that are called so
    and have folders of their own.
    """
    return {path: text_of(path) for above in folders_above(script) for path in _files(above)}


def named_by(commands: Collection[str], settings: Mapping[Path, str]) -> Mapping[Path, str]:
    """Those of the files that commands name; all where a command names none, or one of these names
    others.
    """
    found: dict[Path, str] = {}
    for command in commands:
        named = {path: text for path, text in settings.items() if _is_in(command, path)}
        if not named or any(map(_NAMES_OTHERS.search, named.values())):
            return settings
        found |= named
    return found or settings


def _is_in(command: str, path: Path) -> bool:
    """Whether a word of a command, or what stands behind its ``=``, ends in a file's path."""
    words = (word.rpartition("=")[2].strip("\"'`") for word in command.split())
    return any(
        Path(word).name == path.name and path.parts[-len(Path(word).parts) :] == Path(word).parts
        for word in (one.removeprefix("./") for one in words)
        if word
    )


class Unread:
    """What is no number and no word: a section, a list, a text of several lines."""


UNREAD = Unread()


def values_of(key: str, settings: Mapping[Path, str]) -> frozenset[object]:
    """What these files set a key to, in whichever section."""
    line = re.compile(rf"(?m)(?:^|[\s{{,\"'.]){re.escape(key)}[\"']?\s*[:=]\s*([^\n,}}#]*)")
    return frozenset(_read(found) for text in settings.values() for found in line.findall(text))


def _read(text: str) -> object:
    bare = text.partition(" #")[0].strip()
    if bare[:1] in _ELSEWHERE:
        return UNREAD
    if bare.lower() in _WORDS:
        return _WORDS[bare.lower()]
    for kind in (int, float):
        try:
            return kind(bare)
        except ValueError:
            continue
    return bare.strip("\"'")


def _files(folder: Path) -> Iterator[Path]:
    return files_within(folder, _FOLDERS, lambda name: os.path.splitext(name)[1] in _KINDS)
