"""Where files are written and read, also by the helpers that a place calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.records import record
from ddpify.understanding.libraries.paths import READ, WRITTEN, named_by
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import argument, code_of, dotted, parameters
from ddpify.understanding.taint.call_graph import called, passed
from ddpify.understanding.taint.file_names import FileNames
from ddpify.understanding.taint.scopes import collecting
from ddpify.understanding.values import Bound

_WRITES = ("torch.save", "numpy.save", "builtins.open")
_READS = ("torch.load", "numpy.load", "builtins.open")
_DEEP = 3  # from a helper to who calls it


@record
class Act:
    """A call that leads to a file that is written or read.

    ``place`` is the call as a function has it, ``path`` what names the file there, and ``itself``
    the call that writes or reads, by the path ``named``. ``guards`` are the conditions on the rank
    on the way from one to the other.
    """

    place: cst.Call
    path: cst.BaseExpression
    itself: cst.Call
    named: cst.BaseExpression
    guards: tuple[Guard, ...]


def writes(script: Script) -> list[Act]:
    """The places of a file that write a file, also by helpers."""
    return [one for one in script.once(_writes) if one.place in script.structure.order]


def reads(script: Script) -> list[Act]:
    """The places of a file that read one."""
    return [one for one in script.once(_reads) if one.place in script.structure.order]


def _writes(script: Script) -> list[Act]:
    return [*_acts(script, _WRITES, WRITTEN, writing=True)]


def _reads(script: Script) -> list[Act]:
    return [*_acts(script, _READS, READ, writing=False)]


def _acts(
    script: Script, names: tuple[str, ...], named: dict[str, tuple[str, int]], *, writing: bool
) -> Iterator[Act]:
    for name in names:
        for call in script.calls(name, everywhere=True):
            writes_there = bool(_mode(script, call) & set("wax")) if "open" in name else writing
            if writes_there is not writing:
                continue
            path = named_by(call, named[name])
            if path is not None:
                guards = tuple(script.control.rank_guards(call))
                yield from _lifted(script, Act(call, path, call, path, guards), _DEEP)
            else:
                yield from _handed_on(script, call, named[name])


def _mode(script: Script, call: cst.Call) -> set[str]:
    given = argument(call, "mode", 1)
    text = script.value(given.value).constant() if given is not None else "r"
    return set(text) if isinstance(text, str) else set("wax")


def _handed_on(script: Script, call: cst.Call, named: tuple[str, int]) -> Iterator[Act]:
    """The calls of ``def save(*args, **kwargs): torch.save(*args, **kwargs)``, which gets its path
    from them, at the place that they give it.
    """
    function = script.structure_of(call).function(call)
    if not isinstance(function, cst.FunctionDef) or parameters(function):
        return
    if not all(one.star and dotted(one.value) in collecting(function) for one in call.args):
        return
    for site in script.control.callers(function):
        given = site.node
        if not isinstance(given, cst.Call) or given not in script.owners:
            continue
        path = named_by(given, named)
        if path is not None:
            guards = (*script.control.rank_guards(call), *script.control.rank_guards(given))
            yield from _lifted(script, Act(given, path, call, path, guards), _DEEP - 1)


def _lifted(script: Script, act: Act, depth: int) -> Iterator[Act]:
    """An act, and the calls of the functions around it."""
    yield act
    function = script.structure_of(act.place).function(act.place)
    if function is None or not depth:
        return
    for site in script.control.callers(function):
        call = site.node
        if not isinstance(call, cst.Call) or call not in script.owners:
            continue
        path = _given(script, call, function, act.path)
        guards = (*act.guards, *script.control.rank_guards(call))
        yield from _lifted(script, replace(act, place=call, path=path, guards=guards), depth - 1)


def _given(
    script: Script, call: cst.Call, function: cst.FunctionDef, path: cst.BaseExpression
) -> cst.BaseExpression:
    """What a call gives for the path, where that is a parameter of the function."""
    if not isinstance(path, cst.Name):
        return path
    bound = any(isinstance(one, Bound) for one in script.value(call.func).atoms)
    for one in called(script.facts, call):
        for given, name in passed(one, int(bound), call) if one.node is function else ():
            if name == path.value:
                return given.value
    return path


def are_of_one_file(script: Script, write: Act, read: Act) -> bool:
    """Whether two acts have the same path: as their function has it, by the same names where the
    acts themselves are, or as the same known text.
    """
    if code_of(write.path) == code_of(read.path) and _is_read_here(script, write, read):
        return True
    names = file_names(script)
    places = [(one.named, script.owners[one.named]) for one in (write, read)]
    alike = code_of(write.named) == code_of(read.named) and names.may_be_same(*places)
    if alike and script.flow.locations(*places[0]):
        return True
    known = [names.texts(*one) or frozenset() for one in places]
    return any("{}" not in text for text in known[0] & known[1])


def _is_read_here(script: Script, write: Act, read: Act) -> bool:
    """Whether both paths are expressions of the function in which both acts stand."""
    structure = script.structure
    function = structure.function(read.place)
    return all(
        one.path in structure.order and structure.function(one.path) is function
        for one in (write, read)
    )


def file_names(script: Script) -> FileNames:
    """What the files of a project are called, as far as that is known."""
    return script.once(_file_names)


def _file_names(script: Script) -> FileNames:
    return FileNames(script.facts, script.flow)
