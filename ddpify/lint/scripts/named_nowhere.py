"""Functions that no code names: no run gets into them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import is_main_guard

# What may call a function by a name that is put together, or read from a file.
_BY_TEXT = re.compile(
    r"getattr\((?!\s*[\w.()]+,\s*[\"'])|__dict__|\b(?:globals|locals|vars|eval|exec|instantiate|Fire)\("
    r"|import_module|__import__"
)


def is_named_nowhere(script: Script, node: cst.CSTNode) -> bool:
    """Whether a node is in a function of a program that nothing calls, passes on or imports.

    What a library offers, nobody in sight need call; what has a decorator or overrides a method
    may be called by code that is not seen.
    """
    functions = [one for one in _functions_around(script, node) if _is_plain(script, one)]
    return (
        bool(functions)
        and _is_of_a_program(script)
        and any(
            not _is_known(script, one) and not _is_mentioned(script, one.name.value)
            for one in functions
        )
    )


def _is_known(script: Script, function: cst.FunctionDef) -> bool:
    """Whether calls of a function are known, or processes that begin with it."""
    return function in script.control.spawned or bool(script.control.callers(function))


def _functions_around(script: Script, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    above = script.structure_of(node).up(node)
    return (one for one in above if isinstance(one, cst.FunctionDef))


def _is_plain(script: Script, function: cst.FunctionDef) -> bool:
    """Whether a function has a name of its own, by which alone it may be called."""
    above = script.structure_of(function).up(function)
    classes = [one for one in above if isinstance(one, cst.ClassDef)]
    return not (
        function.name.value.startswith("__")
        or function.decorators
        or any(one.bases or one.decorators or one.keywords for one in classes)
    )


def _is_of_a_program(script: Script) -> bool:
    """Whether the file is run, or a run of the repository imports it."""
    entry, path = script.structures[script.project.entry], script.module.path
    if any(is_main_guard(one.test) for one in entry.all(cst.If)):
        return True
    imports = re.compile(rf"(?m)^\s*(?:from|import)\s.*\b{re.escape(path.stem)}\b")
    others = (text for one, text in (script.around or {}).items() if one != path.resolve())
    return any(map(imports.search, others))


def _is_mentioned(script: Script, name: str) -> bool:
    """Whether any text of the repository has a name, but for where it is defined."""
    around = script.around
    if around is None:
        return True
    texts = [file.source.text for file in script.project.files]
    texts += [*around.values(), *script.texts.values()]
    named = re.compile(rf"(?<!def )\b{re.escape(name)}\b")
    return any(named.search(text) or _BY_TEXT.search(text) for text in texts)
