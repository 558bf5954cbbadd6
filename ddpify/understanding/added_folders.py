"""The folders that a file adds to ``sys.path``, where its tree alone tells them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import libcst as cst

from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import dotted

_ADDING = ("sys.path.append", "sys.path.insert")
_SAME = frozenset("Path abspath realpath normpath str fspath resolve absolute as_posix".split())
_WORKING = ("os.getcwd", "Path.cwd", "pathlib.Path.cwd")
_DEPTH = 8  # of names that stand for others


class _File(NamedTuple):
    path: Path
    structure: Structure


def added(path: Path, structure: Structure) -> tuple[list[str], list[str]]:
    """Folders that go before those that are searched already, and behind them, in their order.

    A folder that is relative to the working folder is given so.
    """
    file = _File(path, structure)
    first: list[str] = []
    last: list[str] = []
    for call in file.structure.inside(file.structure.tree, cst.Call):
        if dotted(call.func) in _ADDING and call.args:
            before = len(call.args) > 1
            for folder in _texts(file, call.args[-1].value, _DEPTH):
                if before:
                    first.insert(0, os.path.normpath(folder))
                else:
                    last.append(os.path.normpath(folder))
    return first, last


def _texts(file: _File, node: cst.BaseExpression, depth: int) -> Iterator[str]:
    """The paths that an expression may stand for; none for what is not constant."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        text = node.evaluated_value
        yield from [text] if isinstance(text, str) else []
    elif isinstance(node, cst.Name) and depth:
        yield from _named(file, node, depth - 1)
    elif isinstance(node, cst.BinaryOperation):
        for left in _texts(file, node.left, depth):
            for right in _texts(file, node.right, depth):
                together = isinstance(node.operator, cst.Divide)
                yield os.path.join(left, right) if together else left + right
    elif isinstance(node, cst.Call):
        yield from _called(file, node, depth)
    elif isinstance(node, cst.Attribute) and node.attr.value == "parent":
        yield from map(os.path.dirname, _texts(file, node.value, depth))
    elif isinstance(node, cst.Subscript):
        yield from _above(file, node, depth)


def _named(file: _File, name: cst.Name, depth: int) -> Iterator[str]:
    """What a name is set to, or what a function is given for it."""
    if name.value == "__file__":
        yield str(file.path.resolve())
        return
    scope = file.structure.function(name)
    positions = [p.name.value for p in scope.params.params] if scope is not None else []
    if scope is not None and name.value in positions:
        place = positions.index(name.value)
        for call in file.structure.inside(file.structure.tree, cst.Call):
            if dotted(call.func) == scope.name.value and place < len(call.args):
                yield from _texts(file, call.args[place].value, depth)
        return
    for statement in file.structure.inside(file.structure.tree, cst.Assign):
        if any(target.target.deep_equals(name) for target in statement.targets):
            yield from _texts(file, statement.value, depth)


def _called(file: _File, call: cst.Call, depth: int) -> Iterator[str]:
    """``os.path.dirname(path)``, ``Path(path).resolve()`` and the like."""
    if dotted(call.func) in _WORKING:
        yield "."
        return
    method = isinstance(call.func, cst.Attribute) and dotted(call.func) is None
    function = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    name = function.value if isinstance(function, cst.Name) else ""
    given = [argument.value for argument in call.args]
    if isinstance(call.func, cst.Attribute) and (method or not given):
        given.insert(0, call.func.value)
    parts = [list(_texts(file, one, depth)) for one in given]
    if not parts or any(len(held) != 1 for held in parts):
        return
    path, *others = (held[0] for held in parts)
    if name in ("join", "joinpath"):
        yield os.path.join(path, *others)
    elif name == "dirname":
        yield os.path.dirname(path)
    elif name in _SAME:
        yield path


def _above(file: _File, node: cst.Subscript, depth: int) -> Iterator[str]:
    """``Path(__file__).resolve().parents[1]``."""
    index = node.slice[0].slice
    number = index.value if isinstance(index, cst.Index) else None
    chain = isinstance(node.value, cst.Attribute) and node.value.attr.value == "parents"
    if chain and isinstance(number, cst.Integer):
        assert isinstance(node.value, cst.Attribute)
        for path in _texts(file, node.value.value, depth):
            yield str(Path(path).parents[int(number.value)])
