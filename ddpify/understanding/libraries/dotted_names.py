"""Names such as ``models.small.Net`` that a script takes apart, to import what they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, code_of, indices_of
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Const,
    QualifiedName,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_LISTS = ("split", "rsplit")  # which may be changed; tuples cannot
_TUPLES = ("partition", "rpartition")
_FROMLIST = 3  # its position among the arguments of __import__
_READING = frozenset('len enumerate reversed ".".join'.split())


def part_of(
    run: RunState,
    node: cst.BaseExpression,
    text: object,
    name: str,
    args: list[Value],
    kw: Keywords,
) -> Value | None:
    """What a method gives that takes a dotted name apart, or puts one together; None for others."""
    if not isinstance(text, str):
        return None
    if text == "." and name == "join" and len(args) == 1:
        return _joined(args[0])
    given = [*(one.constant() for one in args), *(one.constant() for one in kw.values())]
    if name not in (*_LISTS, *_TUPLES) or given[:1] != ["."] or not _DOTTED.fullmatch(text):
        return None
    if len(given) > (2 if name in _LISTS else 1) or not all(type(n) is int for n in given[1:]):
        return None
    if name in _LISTS and not _is_only_read(run, node):
        return None
    parts = getattr(text, name)(*given)
    return value(Tup(tuple(value(Const(part)) for part in parts)))


def _joined(parts: Value) -> Value | None:
    """``".".join(parts)``, as far as the parts are known."""
    several = [one.items for one in parts.atoms if isinstance(one, Tup)]
    texts = [[item.constant() for item in items] for items in several]
    known = [names for names in texts if all(isinstance(name, str) for name in names)]
    made = value(*(Const(".".join(map(str, names))) for names in known))
    return made if len(known) == len(parts.atoms) else join(made, REPLICATED)


def _is_only_read(run: RunState, made: cst.BaseExpression) -> bool:
    """Whether nothing changes a list: it has no name, or one by which it is only read."""
    above = run.module.parents[made]
    if not isinstance(above, cst.Assign):
        return _reads(run, made)
    target = above.targets[0].target
    if len(above.targets) > 1 or not isinstance(target, cst.Name):
        return len(above.targets) == 1 and isinstance(target, UNPACKED)
    scope = run.module.function(made)
    if scope is None:
        return False
    named = [one for one in walk(scope) if isinstance(one, cst.Name) and one.deep_equals(target)]
    return all(one is target or _reads(run, one) for one in named)


def _reads(run: RunState, listed: cst.BaseExpression) -> bool:
    """Whether a list is indexed, gone through, counted or joined where it stands."""
    parents = run.module.parents
    above = parents[listed]
    if isinstance(above, cst.Subscript):
        changed = (cst.AssignTarget, cst.AugAssign, cst.Del)
        return above.value is listed and not isinstance(parents[above], changed)
    if isinstance(above, (cst.For, cst.CompFor)):
        return above.iter is listed
    call = parents[above] if isinstance(above, cst.Arg) else None
    return isinstance(call, cst.Call) and code_of(call.func).replace("'", '"') in _READING


def imported(run: RunState, node: cst.Subscript, owner: QualifiedName) -> Value:
    """``sys.modules[name]``: a module that was imported before."""
    if owner.name != "sys.modules":
        return UNKNOWN
    names = [name for index in indices_of(node) for name in _texts(run.seen(index))]
    return join(*(run.module_named(name) for name in names if not name.startswith("__")))


def module_of(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``__import__(name)``: the outermost module of a dotted name; with ``fromlist``, itself."""
    names = _texts(args[0]) if args else []
    keywords = node.args if isinstance(node, cst.Call) else ()
    listed = any(one.keyword is not None and one.keyword.value == "fromlist" for one in keywords)
    if not listed and len(args) <= _FROMLIST:
        names = [name.partition(".")[0] for name in names]
    return join(*(run.module_named(name) for name in names))


def _texts(names: Value) -> list[str]:
    return [a.value for a in names.atoms if isinstance(a, Const) and isinstance(a.value, str)]
