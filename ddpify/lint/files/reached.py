"""Whether a script may run what names a word in the files that it imports, by their trees alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from ddpify.lint.files.definitions import Bound, Defined, Definition
from ddpify.understanding.text_imports import imported

_Named = defaultdict[str, list[tuple[str, Definition]]]


class Reached:
    """A script, and all files that it may import, at any depth."""

    def __init__(self, entry: str, files: dict[str, Defined], roots: list[str]) -> None:
        self._entry = entry
        self._files = files
        self._roots = roots
        self._answers: dict[tuple[str, str], bool] = {}
        self._given: dict[str, dict[str, list[Bound]]] = {}

    def may_run(self, words: frozenset[str]) -> bool:
        """Whether the script may run a definition of another file that names any of these words.

        All of the script itself counts as run.
        """
        looks_up, held = False, set[tuple[str, str, str]]()
        for path, one in self._run():
            if one.finds or (path != self._entry and not one.names.isdisjoint(words)):
                return True
            looks_up = looks_up or one.looks_up
            held.update((path, root, last) for root, last in one.values)
        # What looks up names in a module may mean any definition there.
        return looks_up and any(self._is_module(*one) for one in held)

    def _run(self) -> Iterator[tuple[str, Definition]]:
        """The definitions that may run, each once, as far as those before name them."""
        script = self._files[self._entry].definitions
        todo = [(self._entry, part) for one in script for part in (one, *one.methods)]
        named = self._by_name(todo)
        known, starts, methods = set[str](), set[str](), set[str]()
        texts, asked = set[str](), False
        while todo:
            path, one = todo.pop()
            yield path, one
            known |= one.names
            texts |= one.texts
            starts |= one.beginnings
            asked = asked or one.asks
            for method in one.methods if path != self._entry else ():
                methods.add(method.name or "")
                named[method.name or ""].append((path, method))
            new = named.keys() & (known if one.methods else one.names)
            if starts and (one.beginnings or one.methods):
                new |= {name for name in named if name.startswith(tuple(starts))}
            if asked and not todo and not new:
                new = {name for name in named.keys() & methods if _is_put_together(name, texts)}
            for name in new:
                todo += named.pop(name)

    def _by_name(self, todo: list[tuple[str, Definition]]) -> _Named:
        """The definitions of other files that run where they are named; those that do alone, also
        a module's own ``__getattr__``, go to what is ``todo``.
        """
        named: _Named = defaultdict(list)
        for path, file in self._files.items():
            for one in file.definitions if path != self._entry else ():
                by_itself = one.name is None or one.name.startswith("__")
                (todo if by_itself else named[one.name or ""]).append((path, one))
        return named

    @cached_property
    def _modules(self) -> frozenset[str]:
        """The names that files and folders have as modules and packages."""
        paths = (Path(path).with_suffix("") for path in self._files)
        return frozenset(part for path in paths for part in path.parts)

    def _is_module(self, path: str, root: str, last: str) -> bool:
        """Whether a name in a file, or its last attribute, may be a module."""
        if last and last not in self._modules:
            return False
        return self._names_module(path, root)

    def _names_module(self, path: str, name: str) -> bool:
        """Whether imports may give a name in a file to one of the modules."""
        key = path, name
        if key not in self._answers:
            self._answers[key] = False  # for imports in a circle
            given = self._bound(path)
            found = given.get(name, []) + given.get("*", [])
            self._answers[key] = any(self._is_of_module(path, one, name) for one in found)
        return self._answers[key]

    def _bound(self, path: str) -> dict[str, list[Bound]]:
        """The imports of a file by the names that they give."""
        if path not in self._given:
            self._given[path] = {}
            for one in self._files[path].bound:
                self._given[path].setdefault(one.given, []).append(one)
        return self._given[path]

    def _is_of_module(self, path: str, one: Bound, name: str) -> bool:
        """Whether an import that gives a name may give it to a module of these files."""
        original = name if one.given == "*" else one.name
        if original and original not in self._modules:
            return False
        base = next(imported(((one.level, one.module, ()),), path, self._roots), None)
        if not original or base not in self._files or base == path:
            return base is not None
        # Python and ddpify take what a package itself sets for the name, and then a file in it.
        file = self._files[base]
        if self._names_module(base, original):
            return True
        is_set = original in file.assigned or original in self._bound(base)
        return not is_set and Path(base).stem == "__init__"


def _is_put_together(name: str, texts: set[str]) -> bool:
    """Whether a name may be some of these texts behind each other, of two letters and more."""
    pieces = {one.lower() for one in texts if 1 < len(one) <= len(name)} | set("0123456789_")
    ends = {0}
    for end in range(1, len(name) + 1):
        if any(start in ends and name[start:end].lower() in pieces for start in range(end)):
            ends.add(end)
    return len(name) in ends
