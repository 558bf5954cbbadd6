"""Which local files a text imports, as far as the text alone tells: no file is parsed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ddpify.understanding.searching import real_path

# Level, module and names of each import.
Imports = tuple[tuple[int, str, tuple[str, ...]], ...]
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)"
    r"|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")
_BEHIND = re.compile(r";|:[ \t]*(?=(?:from|import)\b)")  # a statement, on the line of another
# Words of a text that may import what no import statement names.
_DYNAMIC = re.compile(r"sys\.path|importlib|__import__|\bexec\(|\beval\(|runpy|\bimp\.")


def imports_in(text: str) -> Imports:
    """Level, module and names of each import in a text, wherever it stands."""
    found = []
    for dots, module, names, plain in _IMPORT.findall(text):
        if plain:
            found += [(0, one.split(" as ")[0].strip(), ()) for one in plain.split(",")]
        else:
            words = [one.split(" as ")[0].strip() for one in names.strip("()").split(",")]
            found.append((len(dots), module, tuple(w for w in words if w.isidentifier())))
    return tuple(dict.fromkeys(found))


def imported(imports: Imports, importer: str, roots: list[str]) -> Iterator[str]:
    """The local files that these imports may read."""
    for level, module, names in imports:
        folders = roots
        if level:
            base = os.path.dirname(importer)
            for _ in range(level - 1):
                base = os.path.dirname(base)
            folders = [base]
        parts = module.replace(".", os.sep)
        for folder in folders:
            stem = os.path.join(folder, parts) if parts else folder
            if os.path.isfile(stem + ".py"):
                yield real_path(stem + ".py")
            elif os.path.isdir(stem):
                for name in ("__init__", *names):
                    inner = os.path.join(stem, name)
                    if os.path.isfile(inner + ".py"):
                        yield real_path(inner + ".py")
                    elif os.path.isfile(os.path.join(inner, "__init__.py")):
                        yield real_path(os.path.join(inner, "__init__.py"))
            else:
                continue
            break


def highest_imported(text: str, path: Path, highest: Path) -> Path | None:
    """The highest folder above a file's own, up to ``highest``, that has something it imports.

    What a folder further down has is not looked for above it, as Python finds the nearest first.
    """
    left = [one for one in imports_in(text) if not one[0]]
    found = None
    for folder in path.parents:
        if not folder.is_relative_to(highest):
            break
        away = [one for one in left if not any(imported((one,), str(path), [str(folder)]))]
        if len(away) < len(left) and folder != path.parent:
            found = folder
        left = away
    return found


def local_files(entries: Iterable[str], roots: list[str]) -> Iterator[str]:
    """The texts of scripts, and of all local files that they name in imports, at any depth.

    Raises:
        OSError: One cannot be read.
    """
    todo = list(entries)
    seen = set(todo)
    while todo:
        path = todo.pop()
        text = Path(path).read_text("utf-8", "replace")
        yield text
        new = set(imported(_all_imports(text), path, roots)) - seen
        seen |= new
        todo += new


def may_reach(word: str, entries: Iterable[str], roots: list[str], most: int) -> bool:
    """Whether a word may stand in scripts, or in a local file that they import at any depth.

    It may where a text imports what it does not name, and where there are more than ``most`` files.
    """
    try:
        for number, text in enumerate(local_files(entries, roots)):
            if word in text or _DYNAMIC.search(text) or number >= most:
                return True
    except OSError:
        return True
    return False


def _all_imports(text: str) -> Imports:
    """The same, of a text in which each import has a line; with the packages around modules."""
    lines = _BEHIND.sub("\n", _COMMENT.sub("", text).replace("\\\n", " "))
    found = imports_in(lines)
    around = [
        (level, module[:end], ())
        for level, module, _ in found
        for end, letter in enumerate(module)
        if letter == "."
    ]
    return (*found, *dict.fromkeys(around))
